//! Keys that the tables `[follow]` and `[replica]` share: the identity with which this server binds at another server,
//! and the authorities that sign that server's certificate.

/// Declares the keys of a table: the keys in the macro's argument, and the shared keys.
macro_rules! source_table {
    ($(#[$of_table:meta])* $vis:vis struct $name:ident { $($(#[$of_key:meta])* $key:ident: $type:ty,)* }) => {
        $(#[$of_table])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $vis struct $name {
            $($(#[$of_key])* pub $key: $type,)*
            /// DN for the bind.
            pub bind_dn: Option<FromText<DnText>>,
            /// File with the password.
            pub password_file: Option<PathBuf>,
            /// File with the authorities that sign the server's certificate, in PEM form.
            pub authorities: Option<PathBuf>,
            /// File with the certificate for the bind, in PEM form.
            pub certificate: Option<PathBuf>,
            /// File with the private key of the certificate, in PEM form.
            pub key: Option<PathBuf>,
        }

        impl $name {
            /// Returns the keys of the table that are paths.
            pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
                [&mut self.password_file, &mut self.authorities, &mut self.certificate, &mut self.key]
                    .into_iter()
                    .flatten()
            }

            /// Returns the identity for the keys of this table.
            fn identity(&self, url: &ServerUrl) -> Result<FollowIdentity, &'static str> {
                let files = (self.password_file.clone(), self.certificate.clone(), self.key.clone());
                FollowIdentity::of(url, self.bind_dn.clone(), files, self.authorities.is_some())
            }
        }
    };
}

pub(super) use source_table;
