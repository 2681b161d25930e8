//! Security contexts of GSS-API (RFC 2743) with Kerberos (RFC 4121), as their acceptor: MIT's library, loaded when it
//! is first wanted.
//!
//! A call may read the keytab and write the replay cache, so none belongs on a thread that must not wait.

mod library;

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use library::{Buffer, ChannelBindings, Handle, KeyValue, KeyValueSet, Library, Oid, OidSet, Word};

/// Kerberos 5 (RFC 4121): 1.2.840.113554.1.2.2.
const KERBEROS: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
/// SPNEGO (RFC 4178): 1.3.6.1.5.5.2.
const SPNEGO: &[u8] = b"\x2b\x06\x01\x05\x05\x02";
/// A principal's name as text (RFC 1964 section 2.1.1): 1.2.840.113554.1.2.2.1.
const PRINCIPAL_NAME: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01";

/// `GSS_C_ACCEPT`.
const ACCEPT: c_int = 2;
/// The bits of a status that are errors: of the calling convention, and of the routine.
const ERRORS: Word = 0xffff_0000;
/// `GSS_S_CONTINUE_NEEDED`.
const CONTINUE_NEEDED: Word = 1;
/// `GSS_C_CONF_FLAG` and `GSS_C_INTEG_FLAG`.
const PROTECTION_FLAGS: Word = 16 | 32;
/// Texts of one status that are read.
const STATUS_TEXTS_MAX: usize = 4;

/// Error text of the library, for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GssError(String);

/// By what the two ends agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GssMechanism {
    /// Kerberos itself.
    Kerberos,
    /// SPNEGO, which has nothing but Kerberos to choose.
    Spnego,
}

/// Credentials with which a server accepts clients: the keys of its keytab.
pub struct Acceptor {
    library: &'static Library,
    credential: Handle,
}

// SAFETY: credentials of MIT's library have a lock of their own; RFC 2744 asks callers for care with contexts alone.
unsafe impl Send for Acceptor {}
// SAFETY: as above.
unsafe impl Sync for Acceptor {}

/// A name of the library, given back when it is dropped.
struct Name(&'static Library, Handle);

/// Bytes of the library, given back when they are dropped.
struct Output(&'static Library, Buffer);

/// The acceptor's end of an exchange with one client.
pub struct GssContext {
    acceptor: Arc<Acceptor>,
    context: Handle,
}

// SAFETY: a context may be used by one thread after another, only not by two at once: every method wants it `&mut`.
unsafe impl Send for GssContext {}

/// Outcome of one token of the client.
#[derive(Debug, PartialEq, Eq)]
pub struct GssStep {
    /// Token to send to the client; may be empty.
    pub token: Vec<u8>,
    /// The client has proved who it is.
    pub is_done: bool,
}

/// Properties of an established context.
#[derive(Debug, PartialEq, Eq)]
pub struct GssPeers {
    /// The client's principal, as `name@REALM`.
    pub client: String,
    /// The principal whose key was used.
    pub service: String,
    /// The client wants each message protected by the context.
    pub wants_protection: bool,
}

impl Acceptor {
    /// Takes the keys of a keytab: of one principal, or of all that are in it.
    ///
    /// # Errors
    /// The library is not there; the keytab cannot be read or lacks the key.
    pub fn open(
        mechanism: GssMechanism,
        keytab: &Path,
        principal: Option<&str>,
    ) -> Result<Acceptor, GssError> {
        let library = Library::get()?;
        let keytab = CString::new([b"FILE:", keytab.as_os_str().as_bytes()].concat())
            .map_err(|_| GssError("the name of the keytab has a NUL in it".to_owned()))?;
        let name = principal.map(|principal| Name::of(library, principal)).transpose()?;
        let name = name.as_ref().map_or(ptr::null_mut(), |name| name.1);
        let (kerberos, spnego) = (oid(KERBEROS), oid(SPNEGO));
        let wanted = match mechanism {
            GssMechanism::Kerberos => &kerberos,
            GssMechanism::Spnego => &spnego,
        };
        let (wanted, negotiable) =
            (OidSet { count: 1, elements: wanted }, OidSet { count: 1, elements: &kerberos });
        let pair = KeyValue { key: c"keytab".as_ptr(), value: keytab.as_ptr() };
        let store = KeyValueSet { count: 1, elements: &pair };
        let (mut minor, mut acceptor) = (0, Acceptor { library, credential: ptr::null_mut() });
        // SAFETY: every pointer is of a value above that lives through the call, or null where RFC 2744 section 5.2
        // lets it be; the library writes the handle, which is released when `acceptor` is dropped.
        let major = unsafe {
            (library.gss_acquire_cred_from)(
                &mut minor,
                name,
                Word::MAX,
                &wanted,
                ACCEPT,
                &store,
                &mut acceptor.credential,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(library, major, minor)?;
        if mechanism == GssMechanism::Spnego {
            // SAFETY: the credential is one of this library, and the set lives through the call.
            let major = unsafe { (library.gss_set_neg_mechs)(&mut minor, acceptor.credential, &negotiable) };
            check(library, major, minor)?;
        }
        Ok(acceptor)
    }

    /// Begins an exchange with a client.
    pub fn begin(self: &Arc<Acceptor>) -> GssContext {
        GssContext { acceptor: Arc::clone(self), context: ptr::null_mut() }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if !self.credential.is_null() {
            // SAFETY: the credential is the library's, and nothing uses it after this.
            unsafe { (self.library.gss_release_cred)(&mut 0, &mut self.credential) };
        }
    }
}

impl GssContext {
    /// Takes a token of the client. `channel` is the channel that the client's proof may be bound to (RFC 5056); a
    /// client that sends no binding passes.
    ///
    /// # Errors
    /// The token is no good here. Nothing but dropping the context is left then.
    pub fn step(&mut self, token: &[u8], channel: Option<&[u8]>) -> Result<GssStep, GssError> {
        let library = self.acceptor.library;
        let input = Buffer::of(token);
        let bindings = channel.map(|channel| ChannelBindings {
            initiator_type: 0,
            initiator: Buffer::EMPTY,
            acceptor_type: 0,
            acceptor: Buffer::EMPTY,
            application: Buffer::of(channel),
        });
        let bindings = bindings.as_ref().map_or(ptr::null(), ptr::from_ref);
        let (mut minor, mut output) = (0, Output(library, Buffer::EMPTY));
        // SAFETY: the pointers are of values that live through the call, or null where RFC 2744 section 5.1 lets them
        // be; the context is one of this library, or null to begin one.
        let major = unsafe {
            (library.gss_accept_sec_context)(
                &mut minor,
                &mut self.context,
                self.acceptor.credential,
                &input,
                bindings,
                ptr::null_mut(),
                ptr::null_mut(),
                &mut output.1,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(library, major, minor)?;
        Ok(GssStep { token: output.octets().to_vec(), is_done: major & CONTINUE_NEEDED == 0 })
    }

    /// Returns the names at both ends of an established context.
    ///
    /// # Errors
    /// It is not, or the names are no text.
    pub fn peers(&mut self) -> Result<GssPeers, GssError> {
        let library = self.acceptor.library;
        let mut client = Name(library, ptr::null_mut());
        let mut service = Name(library, ptr::null_mut());
        let (mut minor, mut flags) = (0, 0);
        if self.context.is_null() {
            return Err(GssError("there is no context yet".to_owned()));
        }
        // SAFETY: the context is one of this library; the other pointers are of values above, or null where RFC 2744
        // section 5.21 lets them be.
        let major = unsafe {
            (library.gss_inquire_context)(
                &mut minor,
                self.context,
                &mut client.1,
                &mut service.1,
                ptr::null_mut(),
                ptr::null_mut(),
                &mut flags,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(library, major, minor)?;
        let wants_protection = flags & PROTECTION_FLAGS != 0;
        Ok(GssPeers { client: client.text()?, service: service.text()?, wants_protection })
    }

    /// Protects a message against change.
    ///
    /// # Errors
    /// There is no context yet, or the library fails.
    pub fn wrap(&mut self, octets: &[u8]) -> Result<Vec<u8>, GssError> {
        let library = self.acceptor.library;
        let (mut minor, mut output) = (0, Output(library, Buffer::EMPTY));
        // SAFETY: the context is one of this library or null, which it refuses; the buffers live through the call.
        let major = unsafe {
            (library.gss_wrap)(
                &mut minor,
                self.context,
                0,
                0,
                &Buffer::of(octets),
                ptr::null_mut(),
                &mut output.1,
            )
        };
        check(library, major, minor)?;
        Ok(output.octets().to_vec())
    }

    /// Takes a protected message of the client.
    ///
    /// # Errors
    /// There is no context yet, or the message is not the client's.
    pub fn unwrap(&mut self, octets: &[u8]) -> Result<Vec<u8>, GssError> {
        let library = self.acceptor.library;
        let (mut minor, mut output) = (0, Output(library, Buffer::EMPTY));
        // SAFETY: as in `wrap`.
        let major = unsafe {
            (library.gss_unwrap)(
                &mut minor,
                self.context,
                &Buffer::of(octets),
                &mut output.1,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(library, major, minor)?;
        Ok(output.octets().to_vec())
    }
}

impl Drop for GssContext {
    fn drop(&mut self) {
        if !self.context.is_null() {
            let library = self.acceptor.library;
            // SAFETY: the context is the library's, and nothing uses it after this.
            unsafe { (library.gss_delete_sec_context)(&mut 0, &mut self.context, ptr::null_mut()) };
        }
    }
}

impl Name {
    /// The name of a principal.
    fn of(library: &'static Library, principal: &str) -> Result<Name, GssError> {
        let (mut minor, mut name) = (0, Name(library, ptr::null_mut()));
        // SAFETY: the buffer and the OID live through the call, and the library writes the handle.
        let major = unsafe {
            (library.gss_import_name)(
                &mut minor,
                &Buffer::of(principal.as_bytes()),
                &oid(PRINCIPAL_NAME),
                &mut name.1,
            )
        };
        check(library, major, minor)?;
        Ok(name)
    }

    fn text(&self) -> Result<String, GssError> {
        let (mut minor, mut output) = (0, Output(self.0, Buffer::EMPTY));
        if self.1.is_null() {
            return Err(GssError("the Kerberos library returned no name".to_owned()));
        }
        // SAFETY: the name is one of this library, and the buffer lives through the call.
        let major = unsafe { (self.0.gss_display_name)(&mut minor, self.1, &mut output.1, ptr::null_mut()) };
        check(self.0, major, minor)?;
        let text = String::from_utf8(output.octets().to_vec());
        text.map_err(|_| GssError("the name of a principal is not UTF-8".to_owned()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if !self.1.is_null() {
            // SAFETY: the name is the library's, and nothing uses it after this.
            unsafe { (self.0.gss_release_name)(&mut 0, &mut self.1) };
        }
    }
}

impl Output {
    fn octets(&self) -> &[u8] {
        if self.1.value.is_null() {
            return &[];
        }
        // SAFETY: the library has written as many octets there, which stay until the buffer is released.
        unsafe { std::slice::from_raw_parts(self.1.value.cast(), self.1.length) }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.1.value.is_null() {
            // SAFETY: the library has allocated the buffer, and nothing uses it after this.
            unsafe { (self.0.gss_release_buffer)(&mut 0, &mut self.1) };
        }
    }
}

fn oid(elements: &'static [u8]) -> Oid {
    Oid { length: elements.len() as Word, elements: elements.as_ptr() }
}

/// Returns the error text of a status that is an error: the library's text for the cause, or else for the kind.
fn check(library: &'static Library, major: Word, minor: Word) -> Result<(), GssError> {
    if major & ERRORS == 0 {
        return Ok(());
    }
    let cause = status_text(library, minor, 2, &oid(KERBEROS));
    // The library numbers causes as it meets them, that of none among them.
    let is_none = minor == 0 || cause.is_empty() || cause == "Success";
    Err(GssError(if is_none { status_text(library, major, 1, ptr::null()) } else { cause }))
}

fn status_text(library: &'static Library, status: Word, kind: c_int, mechanism: *const Oid) -> String {
    let (mut more, mut texts) = (0, Vec::new());
    while texts.len() < STATUS_TEXTS_MAX {
        let mut output = Output(library, Buffer::EMPTY);
        // SAFETY: the OID is null or lives through the call, as do the other values.
        let major = unsafe {
            (library.gss_display_status)(&mut 0, status, kind, mechanism, &mut more, &mut output.1)
        };
        if major & ERRORS != 0 {
            break;
        }
        texts.push(String::from_utf8_lossy(output.octets()).into_owned());
        if more == 0 {
            break;
        }
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keytab_that_is_not_there_is_an_error() {
        let open = |mechanism| Acceptor::open(mechanism, Path::new("/nowhere/keytab"), None).err().unwrap();
        assert!(open(GssMechanism::Kerberos).to_string().contains("/nowhere/keytab"));
        assert!(open(GssMechanism::Spnego).to_string().contains("SPNEGO"));
    }
}
