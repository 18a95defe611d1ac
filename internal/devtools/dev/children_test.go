package dev

import (
	"reflect"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
)

// What is on unless somebody turns it off is on in development, too. Only logs are for people.
func TestDevelopmentTurnsNothingOff(t *testing.T) {
	cfg, err := Config{}.defaults()
	if err != nil {
		t.Fatal(err)
	}
	ours, preset := reflect.ValueOf(cfg), reflect.ValueOf(app.Defaults())
	for i := range preset.NumField() {
		name, field := preset.Type().Field(i).Name, preset.Field(i)
		if name != "LogJSON" && field.Kind() == reflect.Bool && field.Bool() && !ours.Field(i).Bool() {
			t.Errorf("%s is off", name)
		}
	}
}

func TestDefaultLimitsAreThoseOfTheService(t *testing.T) {
	cfg, err := Config{Limits: "default"}.defaults()
	if err != nil {
		t.Fatal(err)
	}
	if want := app.Defaults(); cfg.MaxUnpaid != want.MaxUnpaid || want.MaxUnpaid == 0 ||
		!reflect.DeepEqual(cfg.Limits, want.Limits) {
		t.Errorf("%d unpaid orders and the rates %v", cfg.MaxUnpaid, cfg.Limits)
	}
}
