//go:build mutant_errors_answer

package mutant

const planted = "errors_answer"
