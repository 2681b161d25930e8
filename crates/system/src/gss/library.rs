//! Types and functions of MIT's GSS-API library in C (RFC 2744), which is loaded at the first use.
//!
//! The library is loaded at run time, so that one program runs with and without it, and no build needs its headers. The
//! declarations come from RFC 2744 appendix A, and from MIT's `gssapi_ext.h` for functions that take a keytab.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::GssError;

/// File name of MIT's library, as other programs load it.
const NAME: &CStr = c"libgssapi_krb5.so.2";

/// `OM_uint32`.
pub(super) type Word = u32;
/// `gss_name_t`, `gss_cred_id_t` and `gss_ctx_id_t`: opaque pointers of the library.
pub(super) type Handle = *mut c_void;

/// `gss_buffer_desc`.
#[repr(C)]
pub(super) struct Buffer {
    pub(super) length: usize,
    pub(super) value: *mut c_void,
}

/// `gss_OID_desc`.
#[repr(C)]
pub(super) struct Oid {
    pub(super) length: Word,
    pub(super) elements: *const u8,
}

/// `gss_OID_set_desc`.
#[repr(C)]
pub(super) struct OidSet {
    pub(super) count: usize,
    pub(super) elements: *const Oid,
}

/// `gss_channel_bindings_struct`.
#[repr(C)]
pub(super) struct ChannelBindings {
    pub(super) initiator_type: Word,
    pub(super) initiator: Buffer,
    pub(super) acceptor_type: Word,
    pub(super) acceptor: Buffer,
    pub(super) application: Buffer,
}

/// `gss_key_value_element_desc`.
#[repr(C)]
pub(super) struct KeyValue {
    pub(super) key: *const c_char,
    pub(super) value: *const c_char,
}

/// `gss_key_value_set_desc`.
#[repr(C)]
pub(super) struct KeyValueSet {
    pub(super) count: Word,
    pub(super) elements: *const KeyValue,
}

impl Buffer {
    pub(super) const EMPTY: Buffer = Buffer { length: 0, value: ptr::null_mut() };

    /// Returns a buffer for the library to read. The caller must drop it before `octets`.
    pub(super) fn of(octets: &[u8]) -> Buffer {
        Buffer { length: octets.len(), value: octets.as_ptr().cast_mut().cast() }
    }
}

/// Declares the functions: a field for each, and the lookup of all of them.
macro_rules! calls {
    ($($name:ident: fn($($argument:ty),* $(,)?);)*) => {
        /// The functions of the library that Pando calls.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Word,)*
        }

        impl Library {
            /// Looks up the functions in the library with this handle.
            fn of(handle: *mut c_void) -> Result<Library, GssError> {
                Ok(Library {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the handle belongs to a library that is never unloaded, and the name ends with a NUL.
                        let found = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                        if found.is_null() {
                            let what = format!("the library of Kerberos has no {}", stringify!($name));
                            return Err(GssError(what));
                        }
                        // SAFETY: by RFC 2744 and gssapi_ext.h the function with this name has this type.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> Word,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

calls! {
    gss_import_name: fn(*mut Word, *const Buffer, *const Oid, *mut Handle);
    gss_release_name: fn(*mut Word, *mut Handle);
    gss_display_name: fn(*mut Word, Handle, *mut Buffer, *mut *const Oid);
    gss_acquire_cred_from: fn(
        *mut Word, Handle, Word, *const OidSet, c_int, *const KeyValueSet, *mut Handle, *mut *mut OidSet, *mut Word,
    );
    gss_set_neg_mechs: fn(*mut Word, Handle, *const OidSet);
    gss_release_cred: fn(*mut Word, *mut Handle);
    gss_accept_sec_context: fn(
        *mut Word, *mut Handle, Handle, *const Buffer, *const ChannelBindings, *mut Handle, *mut *const Oid,
        *mut Buffer, *mut Word, *mut Word, *mut Handle,
    );
    gss_inquire_context: fn(
        *mut Word, Handle, *mut Handle, *mut Handle, *mut Word, *mut *const Oid, *mut Word, *mut c_int, *mut c_int,
    );
    gss_delete_sec_context: fn(*mut Word, *mut Handle, *mut Buffer);
    gss_wrap: fn(*mut Word, Handle, c_int, Word, *const Buffer, *mut c_int, *mut Buffer);
    gss_unwrap: fn(*mut Word, Handle, *const Buffer, *mut Buffer, *mut c_int, *mut Word);
    gss_release_buffer: fn(*mut Word, *mut Buffer);
    gss_display_status: fn(*mut Word, Word, c_int, *const Oid, *mut Word, *mut Buffer);
}

impl Library {
    /// Returns the library. Loads it at the first call; it is never unloaded.
    pub(super) fn get() -> Result<&'static Library, GssError> {
        static LIBRARY: OnceLock<Result<Library, GssError>> = OnceLock::new();
        let loaded = LIBRARY.get_or_init(|| {
            if is_static_program() {
                let text = "this program is static and cannot load the library of Kerberos: use another build";
                return Err(GssError(text.to_owned()));
            }
            // SAFETY: the name ends with a NUL. The library's initializers are the same that run in every program
            // linked with it.
            let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if handle.is_null() {
                let name = NAME.to_string_lossy();
                return Err(GssError(format!(
                    "Kerberos needs the library {name}, which cannot be loaded here; on Debian it is in the package \
                     libgssapi-krb5-2"
                )));
            }
            Library::of(handle)
        });
        loaded.as_ref().map_err(Clone::clone)
    }
}

/// Returns true if the program contains the C library, so that the kernel has loaded no dynamic linker for it. Such a
/// program can load only libraries that need exactly its own version of the C library.
fn is_static_program() -> bool {
    // SAFETY: the call takes no pointer, and reads a value that the kernel has set before the start.
    unsafe { libc::getauxval(libc::AT_BASE) == 0 }
}

#[cfg(test)]
mod tests {
    use super::{Library, is_static_program};

    #[test]
    fn a_static_program_loads_no_library() {
        assert_eq!(is_static_program(), cfg!(target_feature = "crt-static"));
        let refusal = Library::get().err().map(|error| error.0);
        assert_eq!(refusal.is_some_and(|text| text.contains("is static")), is_static_program());
    }
}
