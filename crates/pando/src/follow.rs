//! `pando follow`: serves a copy of another server's tree and follows its changes, or ends the copy.

use std::process::ExitCode;

use directory::virtual_entries::PROMOTE;
use ldap::ResultCode;
use server::values::FromText;
use server::{Config, FollowKeys};

use crate::arguments::FollowArguments;
use crate::online::{Identity, refusal, socket_in};
use crate::{exit, serve};

pub(crate) fn run(arguments: &FollowArguments) -> ExitCode {
    let (Some(url), Some(base), false) = (&arguments.source, &arguments.base, arguments.promote) else {
        return match promote(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => exit::failure(&error),
        };
    };
    let given = arguments.server.to_server().map(|mut given| {
        if given.suffixes.is_empty() {
            given.suffixes.push(arguments.to.as_ref().unwrap_or(base).clone());
        }
        given.follow = Some(FollowKeys {
            url: Some(FromText(url.clone())),
            base: Some(FromText(base.clone())),
            to: arguments.to.clone().map(FromText),
            filter: arguments.filter.clone(),
            leave_out: arguments.leave_out.clone(),
            map: arguments.map.clone(),
            bind_dn: arguments.bind_dn.clone().map(FromText),
            password_file: arguments.password_file.clone(),
            authorities: arguments.authorities.clone(),
            certificate: arguments.certificate.clone(),
            key: arguments.key.clone(),
        });
        given
    });
    serve::serve(&arguments.server, given)
}

fn promote(arguments: &FollowArguments) -> Result<(), String> {
    let given = arguments.server.to_server().map_err(|error| error.to_string())?;
    let config = Config::load(&given).map_err(|error| error.to_string())?;
    let identity = Identity { bind_dn: None, password_file: None, tls_ca: None };
    let mut connection = identity.connect(&socket_in(&config.data)).map_err(|error| error.to_string())?;
    let base = arguments.base.as_ref().map(|base| base.as_str().as_bytes());
    let reply = connection.extended(PROMOTE, base).map_err(|error| error.to_string())?;
    match reply.outcome.code {
        ResultCode::SUCCESS => {
            let cookie = reply.extended.value.unwrap_or_default();
            println!(
                "promoted: the last change of the source has the cookie {}",
                String::from_utf8_lossy(&cookie)
            );
            Ok(())
        }
        code => Err(refusal(code, &reply.outcome.diagnostic)),
    }
}
