//go:build mutant_difference_seen_once

package mutant

const planted = "difference_seen_once"
