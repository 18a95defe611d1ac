//go:build mutant_connections_uncounted

package mutant

const planted = "connections_uncounted"
