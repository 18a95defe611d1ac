package dev

import (
	"reflect"
	"strings"
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

// TestSettingThatFollowsAFlagIsRefused: it would change nothing.
func TestSettingThatFollowsAFlagIsRefused(t *testing.T) {
	for key, want := range map[string]string{
		"base_url": "--addr", "operators.second_approver_above": "--second-approver-above",
	} {
		err := Run(t.Context(), Config{Addr: "192.0.2.1:0", Set: []string{key + "=1"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
