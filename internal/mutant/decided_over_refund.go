//go:build mutant_decided_over_refund

package mutant

const planted = "decided_over_refund"
