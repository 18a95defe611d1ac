module github.com/roamcard/roamcard/internal/money

go 1.26.0
