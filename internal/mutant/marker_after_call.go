//go:build mutant_marker_after_call

package mutant

const planted = "marker_after_call"
