package app

import (
	"strings"
	"testing"
)

func TestMisspeltVariablesAreMistakes(t *testing.T) {
	wrong := Modules{}.unknownVariables([]string{
		"PATH=/bin", "ROAMCARD_SCREENING_LISTS=a", "ROAMCARD_SUPLIER__KEY=b", "ROAMCARD_QUOTE__KEYS_FILE=c",
		"ROAMCARD_SUPPLIER__KEY=d", "ROAMCARD_QUOTE__KEY_FILE=e", "ROAMCARD_URL=f", "ROAMCARD_OPERATOR_TOKEN_FILE=g",
		"ROAMCARD_SERVICE_HOST=10.0.0.1", "ROAMCARD_SERVICE_PORT_HTTP=80", "ROAMCARD_PORT=tcp://10.0.0.1:80",
		"ROAMCARD_PORT_80_TCP_ADDR=10.0.0.1", "ROAMCARD_METRICS_PORT_9090_TCP=tcp://10.0.0.1:9090",
		"ROAMCARD_RELAYER_TWO=h",
	}, []string{"ROAMCARD_RELAYER_TWO"})
	want := [][2]string{
		{"ROAMCARD_QUOTE__KEYS_FILE", "ROAMCARD_QUOTE__KEY"}, {"ROAMCARD_SCREENING_LISTS", "ROAMCARD_SCREENING__LISTS"},
		{"ROAMCARD_SUPLIER__KEY", "ROAMCARD_SUPPLIER__KEY"},
	}
	if len(wrong) != len(want) {
		t.Fatalf("%v, want %v", wrong, want)
	}
	for i, w := range want {
		if text := wrong[i].Error(); !strings.HasPrefix(text, w[0]+" ") || !strings.HasSuffix(text, " "+w[1]) {
			t.Errorf("%s, want %v", text, w)
		}
	}
}
