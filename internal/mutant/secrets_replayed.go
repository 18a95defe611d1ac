//go:build mutant_secrets_replayed

package mutant

const planted = "secrets_replayed"
