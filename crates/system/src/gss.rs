//! The acceptor's side of GSS-API security contexts (RFC 2743) with Kerberos (RFC 4121). Uses MIT's library, which is
//! loaded at the first use.
//!
//! A call may read the keytab and write the replay cache, so an event loop must not make any.

mod library;

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use library::{Buffer, ChannelBindings, Handle, KeyValue, KeyValueSet, Library, Oid, OidSet, Word};

/// Kerberos 5 (RFC 4121): OID 1.2.840.113554.1.2.2.
const KERBEROS: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
/// SPNEGO (RFC 4178): OID 1.3.6.1.5.5.2.
const SPNEGO: &[u8] = b"\x2b\x06\x01\x05\x05\x02";
/// Name type of a principal as text (RFC 1964 section 2.1.1): OID 1.2.840.113554.1.2.2.1.
const PRINCIPAL_NAME: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01";

/// `GSS_C_ACCEPT`.
const ACCEPT: c_int = 2;
/// Bits of a status that report errors: calling errors and routine errors.
const ERRORS: Word = 0xffff_0000;
/// `GSS_S_CONTINUE_NEEDED`.
const CONTINUE_NEEDED: Word = 1;
/// `GSS_C_CONF_FLAG` and `GSS_C_INTEG_FLAG`.
const PROTECTION_FLAGS: Word = 16 | 32;
/// Maximum number of texts that are read for one status.
const STATUS_TEXTS_MAX: usize = 4;

/// Error text of the library, for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GssError(String);

/// Mechanism with which client and server negotiate security.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GssMechanism {
    /// Kerberos itself.
    Kerberos,
    /// SPNEGO, which offers only Kerberos.
    Spnego,
}

/// Credentials of a server that accepts clients: the keys of its keytab.
pub struct Acceptor {
    library: &'static Library,
    credential: Handle,
}

// SAFETY: MIT's library locks credentials itself; RFC 2744 requires callers to synchronize only contexts.
unsafe impl Send for Acceptor {}
// SAFETY: the same as for `Send`.
unsafe impl Sync for Acceptor {}

/// A name that the library allocated. Released when it is dropped.
struct Name(&'static Library, Handle);

/// Octets that the library allocated. Released when they are dropped.
struct Output(&'static Library, Buffer);

/// The acceptor's side of an exchange with one client.
pub struct GssContext {
    acceptor: Arc<Acceptor>,
    context: Handle,
}

// SAFETY: several threads may use a context one after another, but not at the same time: every method takes `&mut
// self`.
unsafe impl Send for GssContext {}

/// Result of processing one token of the client.
#[derive(Debug, PartialEq, Eq)]
pub struct GssStep {
    /// Token to send to the client; may be empty.
    pub token: Vec<u8>,
    /// Whether the client has proved its identity.
    pub is_done: bool,
}

/// Properties of an established context.
#[derive(Debug, PartialEq, Eq)]
pub struct GssPeers {
    /// The client's principal, as `name@REALM`.
    pub client: String,
    /// The service principal whose key was used.
    pub service: String,
    /// Whether the client requires that the context protects each message.
    pub wants_protection: bool,
}

impl Acceptor {
    /// Opens a keytab, with the keys of one principal or of all principals in it.
    ///
    /// # Errors
    /// The library is not installed, the keytab cannot be read, or it lacks the key.
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
        // SAFETY: every pointer is to a value above that lives through the call, or null, as RFC 2744 section 5.2
        // permits. The library writes the handle, which is released when `acceptor` is dropped.
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
            // SAFETY: this library allocated the credential, and the set lives through the call.
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
            // SAFETY: this library allocated the credential, and nothing uses it afterwards.
            unsafe { (self.library.gss_release_cred)(&mut 0, &mut self.credential) };
        }
    }
}

impl GssContext {
    /// Processes a token of the client. `channel` is the server's channel binding (RFC 5056). If the client sends a
    /// binding, it must equal `channel`.
    ///
    /// # Errors
    /// The token is not acceptable. The context is then unusable; drop it.
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
        // SAFETY: the pointers are to values that live through the call, or null, as RFC 2744 section 5.1 permits. This
        // library allocated the context, or it is null for a new exchange.
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

    /// Returns the names of both sides of an established context.
    ///
    /// # Errors
    /// The context is not established, or a name is not UTF-8.
    pub fn peers(&mut self) -> Result<GssPeers, GssError> {
        let library = self.acceptor.library;
        let mut client = Name(library, ptr::null_mut());
        let mut service = Name(library, ptr::null_mut());
        let (mut minor, mut flags) = (0, 0);
        if self.context.is_null() {
            return Err(GssError("there is no context yet".to_owned()));
        }
        // SAFETY: this library allocated the context. The other pointers are to values above, or null, as RFC 2744
        // section 5.21 permits.
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

    /// Protects the integrity of a message.
    ///
    /// # Errors
    /// The context is not established yet, or the library fails.
    pub fn wrap(&mut self, octets: &[u8]) -> Result<Vec<u8>, GssError> {
        let library = self.acceptor.library;
        let (mut minor, mut output) = (0, Output(library, Buffer::EMPTY));
        // SAFETY: this library allocated the context, or it is null, which the library rejects. The buffers live
        // through the call.
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

    /// Verifies a protected message of the client and returns its content.
    ///
    /// # Errors
    /// The context is not established yet, or the message is not from the client.
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
            // SAFETY: this library allocated the context, and nothing uses it afterwards.
            unsafe { (library.gss_delete_sec_context)(&mut 0, &mut self.context, ptr::null_mut()) };
        }
    }
}

impl Name {
    /// Imports the name of a principal.
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
        // SAFETY: this library allocated the name, and the buffer lives through the call.
        let major = unsafe { (self.0.gss_display_name)(&mut minor, self.1, &mut output.1, ptr::null_mut()) };
        check(self.0, major, minor)?;
        let text = String::from_utf8(output.octets().to_vec());
        text.map_err(|_| GssError("the name of a principal is not UTF-8".to_owned()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if !self.1.is_null() {
            // SAFETY: this library allocated the name, and nothing uses it afterwards.
            unsafe { (self.0.gss_release_name)(&mut 0, &mut self.1) };
        }
    }
}

impl Output {
    fn octets(&self) -> &[u8] {
        if self.1.value.is_null() {
            return &[];
        }
        // SAFETY: the library has written this many octets there, which remain until the buffer is released.
        unsafe { std::slice::from_raw_parts(self.1.value.cast(), self.1.length) }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.1.value.is_null() {
            // SAFETY: this library allocated the buffer, and nothing uses it afterwards.
            unsafe { (self.0.gss_release_buffer)(&mut 0, &mut self.1) };
        }
    }
}

fn oid(elements: &'static [u8]) -> Oid {
    Oid { length: elements.len() as Word, elements: elements.as_ptr() }
}

/// Returns an error if `major` contains one. The error's text is the library's text for the cause (`minor`) if the
/// library has such a text, otherwise the text for the kind of error (`major`).
fn check(library: &'static Library, major: Word, minor: Word) -> Result<(), GssError> {
    if major & ERRORS == 0 {
        return Ok(());
    }
    let cause = status_text(library, minor, 2, &oid(KERBEROS));
    // The library assigns minor numbers dynamically, so a nonzero number may mean "Success".
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
    fn a_missing_keytab_is_an_error() {
        let open = |mechanism| Acceptor::open(mechanism, Path::new("/nowhere/keytab"), None).err().unwrap();
        assert!(open(GssMechanism::Kerberos).to_string().contains("/nowhere/keytab"));
        assert!(open(GssMechanism::Spnego).to_string().contains("SPNEGO"));
    }
}
