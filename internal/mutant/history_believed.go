//go:build mutant_history_believed

package mutant

const planted = "history_believed"
