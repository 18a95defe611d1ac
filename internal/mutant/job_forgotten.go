//go:build mutant_job_forgotten

package mutant

const planted = "job_forgotten"
