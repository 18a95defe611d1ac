//go:build mutant_transfer_of_another

package mutant

const planted = "transfer_of_another"
