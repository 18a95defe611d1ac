module github.com/roamcard/roamcard/internal/secret

go 1.26.0
