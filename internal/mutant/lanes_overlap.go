//go:build mutant_lanes_overlap

package mutant

const planted = "lanes_overlap"
