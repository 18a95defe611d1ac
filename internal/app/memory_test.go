package app

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestDefaultLimitsFitTheMemoryOfTheChart: what callers can make a process hold at once is less than it has there.
func TestDefaultLimitsFitTheMemoryOfTheChart(t *testing.T) {
	var c Config
	for _, s := range edgeSettings() {
		if err := s.set(&c, s.byDefault); err != nil {
			t.Fatalf("%s: %v", s.key, err)
		}
	}
	if c.MaxConns <= 0 || c.MaxRequests <= 0 {
		t.Fatal("there is no bound by default")
	}
	text, err := os.ReadFile("../../packaging/helm/roamcard/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct {
		Server struct {
			Resources struct {
				Limits struct{ Memory string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	gib, whole := strings.CutSuffix(chart.Server.Resources.Limits.Memory, "Gi")
	n, err := strconv.ParseInt(gib, 10, 64)
	if err != nil || !whole {
		t.Fatalf("the chart's limit is %q", chart.Server.Resources.Limits.Memory)
	}
	has := int64(memoryShare * float64(n<<30))
	if most := c.mostMemory(); most > has {
		t.Errorf("callers may use %d MiB, and the process has %d", most>>20, has>>20)
	}
}
