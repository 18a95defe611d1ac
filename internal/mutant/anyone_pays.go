//go:build mutant_anyone_pays

package mutant

const planted = "anyone_pays"
