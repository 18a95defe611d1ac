package hostile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// attacks are all that are made on one program.
func attacks() []attack {
	return slices.Concat(spentPayments(), offeredPayments(), unfair(), movedMoney(), throttled(), gates(), promises(),
		floods(), connections(), evasions(), wires(), sessions(), surfaces())
}

// The test makes one attack after the other on the same program, and checks all books at the end.
func TestHostile(t *testing.T) {
	w := newWorld(t).start()
	mount(t, w, attacks())
	t.Run("the-books-hold-after-all-of-it", func(t *testing.T) { w.audit(t) })
}

// The tables in docs/threat-model have a row for each attack. `make torture` writes them with RENDER=1.
func TestThreatModelNamesEveryAttack(t *testing.T) {
	paths, err := filepath.Glob("../../../docs/threat-model/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var tables []byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, text...)
	}
	for _, a := range slices.Concat(attacks(), processes(), nodes(), facilitators(nil), pages(), operations(nil),
		smartAccounts()) {
		if !strings.Contains(string(tables), "/"+a.name+"`") {
			t.Errorf("docs/threat-model does not name %s", a.name)
		}
	}
}

// What proves a rule for less is there.
func TestRulesOfSkippedAttacksAreProvedElsewhere(t *testing.T) {
	for _, a := range slices.Concat(attacks(), processes(), nodes(), facilitators(nil), pages(), operations(nil),
		smartAccounts()) {
		if a.held == "" {
			continue
		}
		dir, name, _ := strings.Cut(a.held, " ")
		name, _, _ = strings.Cut(name, "/") // the rule of a kit
		if !apptest.HasTest(t, "../../"+dir, name) {
			t.Errorf("%s: there is no %s", a.name, a.held)
		}
	}
}

// audit checks all invariants over what the attacks left, and that no secret was written down.
func (w *world) audit(t *testing.T) {
	b := w.books
	b.Unmatched = w.unmatched.Load()
	w.answers.Lock()
	b.Answers = slices.Clone(w.answers.all)
	w.answers.Unlock()
	if err := invariants.Await(apptest.Context(t), b); err != nil {
		t.Fatal(err)
	}
	found, err := invariants.Check(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, p := range w.programs {
		texts["the program's log"] += p.Log.String()
	}
	found = append(found, invariants.Leaks(texts, w.secrets.all)...)
	const shown = 20
	for _, v := range found[:min(shown, len(found))] {
		t.Error(v)
	}
	if len(found) > shown {
		t.Errorf("and %d more", len(found)-shown)
	}
	if len(w.secrets.all) == 0 || len(texts["the program's log"]) < 1_000 {
		t.Errorf("%d secrets were looked for in %d bytes", len(w.secrets.all), len(texts["the program's log"]))
	}
}
