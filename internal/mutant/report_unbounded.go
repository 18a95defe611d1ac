//go:build mutant_report_unbounded

package mutant

const planted = "report_unbounded"
