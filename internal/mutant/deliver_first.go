//go:build mutant_deliver_first

package mutant

const planted = "deliver_first"
