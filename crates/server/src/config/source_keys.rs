//! Keys that the tables `[follow]` and `[replica]` share: the identity to bind as at another server, and the
//! authorities that sign that server's certificate.

/// Declares the keys of a table: its own and the shared ones.
macro_rules! source_table {
    ($(#[$of_table:meta])* $vis:vis struct $name:ident { $($(#[$of_key:meta])* $key:ident: $type:ty,)* }) => {
        $(#[$of_table])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $vis struct $name {
            $($(#[$of_key])* pub $key: $type,)*
            /// Name to bind with.
            pub bind_dn: Option<FromText<DnText>>,
            /// File with the password.
            pub password_file: Option<PathBuf>,
            /// Authorities that sign the server's certificate, in PEM form.
            pub authorities: Option<PathBuf>,
            /// Certificate to bind with, in PEM form.
            pub certificate: Option<PathBuf>,
            /// Key of the certificate, in PEM form.
            pub key: Option<PathBuf>,
        }

        impl $name {
            /// Returns the paths of the table.
            pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
                [&mut self.password_file, &mut self.authorities, &mut self.certificate, &mut self.key]
                    .into_iter()
                    .flatten()
            }

            /// Returns the identity that the keys describe.
            fn identity(&self, url: &ServerUrl) -> Result<FollowIdentity, &'static str> {
                let files = (self.password_file.clone(), self.certificate.clone(), self.key.clone());
                FollowIdentity::of(url, self.bind_dn.clone(), files, self.authorities.is_some())
            }
        }
    };
}

pub(super) use source_table;
