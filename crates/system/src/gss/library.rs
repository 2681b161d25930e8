//! The library: its types and calls in C (RFC 2744), loaded at the first use.
//!
//! It is loaded at run time, so that one program serves with and without it, and no build needs its headers. The
//! declarations are those of RFC 2744 appendix A, and of MIT's `gssapi_ext.h` for what begins with a keytab.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::GssError;

/// MIT Kerberos, by the name that all programs load it by.
const NAME: &CStr = c"libgssapi_krb5.so.2";

/// `OM_uint32`.
pub(super) type Word = u32;
/// `gss_name_t`, `gss_cred_id_t` and `gss_ctx_id_t`: pointers to what only the library knows.
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

    /// A buffer that the library reads, which has to be gone before `octets` are.
    pub(super) fn of(octets: &[u8]) -> Buffer {
        Buffer { length: octets.len(), value: octets.as_ptr().cast_mut().cast() }
    }
}

/// Declares the calls: a field of each name and type, and the look-up of all of them.
macro_rules! calls {
    ($($name:ident: fn($($argument:ty),* $(,)?);)*) => {
        /// The calls that are made.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Word,)*
        }

        impl Library {
            /// Looks the calls up in the library of this handle.
            fn of(handle: *mut c_void) -> Result<Library, GssError> {
                Ok(Library {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the handle is that of a library that is loaded for good, and the name ends with a
                        // NUL.
                        let found = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                        if found.is_null() {
                            let what = format!("the library of Kerberos has no {}", stringify!($name));
                            return Err(GssError(what));
                        }
                        // SAFETY: by RFC 2744 and gssapi_ext.h the call of this name has this type.
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
    /// The library, which is loaded when it is first wanted and stays.
    pub(super) fn get() -> Result<&'static Library, GssError> {
        static LIBRARY: OnceLock<Result<Library, GssError>> = OnceLock::new();
        let loaded = LIBRARY.get_or_init(|| {
            // SAFETY: the name ends with a NUL; what the library does when it is loaded is what every program that is
            // linked with it has it do.
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
