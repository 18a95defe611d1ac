//go:build mutant_body_not_compared

package mutant

const planted = "body_not_compared"
