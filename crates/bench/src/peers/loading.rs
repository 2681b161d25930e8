//! Loading the same data into servers in turn, each with its own bulk loader.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use strum::IntoStaticStr;

use super::{BulkLoad, Cost, Data, Ds389, OpenDj, OpenLdap, Pando, Peer, PeerError, Setup, process};
use crate::result::{self, DataSet, ServerDescription, setting};

/// A supported product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Product {
    /// Pando itself.
    Pando,
    /// Debian's slapd.
    OpenLdap,
    /// Debian's ns-slapd.
    Ds389,
    /// OpenDJ from Maven Central.
    OpenDj,
}

impl Product {
    /// All products, Pando first.
    pub const ALL: [Product; 4] = [Product::Pando, Product::OpenLdap, Product::Ds389, Product::OpenDj];

    /// Returns the name of the product on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the name of the product in tables, without its version.
    pub fn label(self) -> &'static str {
        match self {
            Product::Pando => "Pando",
            Product::OpenLdap => "OpenLDAP",
            Product::Ds389 => "389 DS",
            Product::OpenDj => "OpenDJ",
        }
    }

    /// Returns the disk space per octet of LDIF, including temporary files, during and after the load. The numbers are
    /// rounded up from measurements with the 19 attributes of `people` and nine indexes.
    fn disk_per_ldif(self) -> u64 {
        match self {
            Product::Pando | Product::OpenDj => 4,
            Product::OpenLdap | Product::Ds389 => 5,
        }
    }
}

impl FromStr for Product {
    type Err = String;

    fn from_str(text: &str) -> Result<Product, String> {
        let found = Product::ALL.into_iter().find(|product| product.name() == text);
        found.ok_or_else(|| format!("'{text}' is no peer: openldap, ds389 or opendj (pando is always there)"))
    }
}

/// Paths of the programs that have no fixed path.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The pando binary.
    pub pando: PathBuf,
    /// OpenDJ's unpacked folder.
    pub opendj: PathBuf,
}

/// Configures a server in a folder. The path must be absolute, because some tools require it.
///
/// # Errors
/// The product is not installed, or cannot be configured.
pub fn configure(
    product: Product,
    programs: &Programs,
    folder: &Path,
    setup: &Setup,
) -> Result<Box<dyn Peer>, PeerError> {
    Ok(match product {
        Product::Pando => Box::new(Pando::configure(&programs.pando, folder, setup)?),
        Product::OpenLdap => Box::new(OpenLdap::configure(folder, setup)?),
        Product::Ds389 => Box::new(Ds389::configure(folder, setup)?),
        Product::OpenDj => Box::new(OpenDj::configure(&programs.opendj, folder, setup)?),
    })
}

/// Number of servers whose data fits on the disk at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Space for all servers.
    ForAll,
    /// Space for one server at a time.
    ForOne,
}

/// Returns how many servers' data the disk can hold at a time: all, or only one.
///
/// # Errors
/// The data of a single server does not fit. The error states how much space is missing.
pub fn room(products: &[Product], data: &Data, folder: &Path) -> Result<Room, PeerError> {
    let free = process::free_disk_bytes(folder).map_err(PeerError::io("look at the disk of", folder))?;
    // A tenth of the space remains free, because a full disk would do more harm than a failed run.
    let usable = free - free / 10;
    let needs = products.iter().map(|product| product.disk_per_ldif() * data.bytes);
    let (all, most) = (needs.clone().sum::<u64>(), needs.max().unwrap_or_default());
    match (all <= usable, most <= usable) {
        (true, _) => Ok(Room::ForAll),
        (false, true) => Ok(Room::ForOne),
        (false, false) => Err(PeerError::Answer(format!(
            "{}: {} MB free of {} MB that one server with {} MB of LDIF may take; give another --folder, or fewer \
             --entries",
            folder.display(),
            usable / 1_000_000,
            most / 1_000_000,
            data.bytes / 1_000_000
        ))),
    }
}

/// Exports a server's data to a temporary LDIF file. Returns the cost and the size of the file, or `None` if the server
/// has no tool for exports.
///
/// # Errors
/// The tool fails.
pub fn export(peer: &mut dyn Peer) -> Result<Option<(Cost, u64)>, PeerError> {
    let file = peer.folder().join("export.ldif");
    let Some(cost) = peer.export(&file)? else { return Ok(None) };
    let bytes = std::fs::metadata(&file).map_err(PeerError::io("read", &file))?.len();
    std::fs::remove_file(&file).map_err(PeerError::io("remove", &file))?;
    Ok(Some((cost, bytes)))
}

/// Returns the description of a server for a result.
pub fn description(peer: &dyn Peer, setup: &Setup, data: &Data) -> ServerDescription {
    let mut server = ServerDescription {
        product: peer.product().to_owned(),
        entries: Some(data.entries),
        data: Some(DataSet {
            template: data.template.clone(),
            seed: data.seed,
            entry_bytes: Some(data.bytes / data.entries.max(1)),
        }),
        bind_identity: setup.admin_dn.clone(),
        ..ServerDescription::default()
    };
    let indexes: Vec<_> = setup.indexes.iter().map(ToString::to_string).collect();
    server.set(setting::INDEXES, indexes.join(" "));
    server.set(setting::TLS, "none");
    for (name, value) in peer.settings() {
        server.set(&name, value);
    }
    server
}

/// Returns the figures of a bulk load in the form of a result.
pub fn load_result(load: &BulkLoad, export: Option<(Cost, u64)>, data: &Data) -> result::BulkLoad {
    result::BulkLoad {
        loader: load.command.clone(),
        seconds: load.cost.wall.as_secs_f64(),
        entries: data.entries,
        ldif_bytes: Some(data.bytes),
        cpu_seconds: Some(load.cost.cpu.as_secs_f64()),
        rss_peak_bytes: Some(load.cost.rss_peak_bytes),
        rss_anon_peak_bytes: Some(load.cost.rss_anon_peak_bytes),
        disk_bytes: Some(load.disk_bytes),
        export_seconds: export.map(|(cost, _)| cost.wall.as_secs_f64()),
        export_bytes: export.map(|(_, bytes)| bytes),
    }
}
