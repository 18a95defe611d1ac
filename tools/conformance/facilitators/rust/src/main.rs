//! The x402 facilitator of the crates of x402-rs, as they are, for one chain and the scheme `exact`.
//!
//! Settings are in FACILITATOR_PORT, FACILITATOR_KEY, FACILITATOR_CHAIN and FACILITATOR_RPC.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use serde_json::{Value, json};
use x402_chain_eip155::V2Eip155Exact;
use x402_chain_eip155::chain::config::{Eip155ChainConfig, Eip155ChainConfigInner};
use x402_chain_eip155::chain::{Eip155ChainProvider, Eip155ChainReference};
use x402_facilitator_local::{FacilitatorLocal, handlers};
use x402_types::chain::{ChainRegistry, FromConfig};
use x402_types::scheme::{
    SchemeBlueprints, SchemeConfig, SchemeRegistry, X402SchemeFacilitator, X402SchemeFacilitatorBuilder, X402SchemeId,
};

type Chain = Arc<Eip155ChainProvider>;

/// The scheme of the crate, for a chain that is shared: the registry lends it for a moment, the scheme keeps it.
struct Exact;

impl X402SchemeId for Exact {
    fn namespace(&self) -> &str {
        V2Eip155Exact.namespace()
    }

    fn scheme(&self) -> &str {
        V2Eip155Exact.scheme()
    }
}

impl X402SchemeFacilitatorBuilder<&Chain> for Exact {
    fn build(&self, chain: &Chain, config: Option<Value>) -> Result<Box<dyn X402SchemeFacilitator>, Box<dyn Error>> {
        V2Eip155Exact.build(Arc::clone(chain), config)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let setting = |name: &str| std::env::var(format!("FACILITATOR_{name}"));
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "a provider of TLS is installed already")?;
    let inner: Eip155ChainConfigInner =
        serde_json::from_value(json!({ "signers": [setting("KEY")?], "rpc": [{ "http": setting("RPC")? }] }))?;
    let reference = Eip155ChainReference::new(setting("CHAIN")?.parse()?);
    let config = Eip155ChainConfig { chain_reference: reference, inner };
    let chain = Arc::new(Eip155ChainProvider::from_config(&config).await?);
    let schemes: Vec<SchemeConfig> =
        serde_json::from_value(json!([{ "id": Exact.id(), "chains": config.chain_id().to_string() }]))?;
    let registry = SchemeRegistry::build(
        ChainRegistry::new(HashMap::from([(config.chain_id(), chain)])),
        SchemeBlueprints::new().and_register(Exact),
        &schemes,
    );
    let routes = handlers::routes().with_state(Arc::new(FacilitatorLocal::new(registry)));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", setting("PORT")?.parse()?)).await?;
    axum::serve(listener, routes).await?;
    Ok(())
}
