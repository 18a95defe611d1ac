//go:build mutant_refusal_unjudged

package mutant

const planted = "refusal_unjudged"
