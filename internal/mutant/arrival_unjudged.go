//go:build mutant_arrival_unjudged

package mutant

const planted = "arrival_unjudged"
