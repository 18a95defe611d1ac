package roamcard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// journalVectors are what the clients of all languages read alike.
type journalVectors struct {
	Valid []struct {
		Name    string
		Now     int64
		Book    json.RawMessage
		Spent   string
		Pending []string
	}
	Refused []struct{ Name, Text, Reason string }
}

func readVectors(t *testing.T) (v journalVectors) {
	t.Helper()
	data, err := os.ReadFile("../../testing/journal.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestJournalIsThatOfEveryLanguage(t *testing.T) {
	for _, v := range readVectors(t).Valid {
		t.Run(v.Name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "journal.json"), v.Book, 0o600); err != nil {
				t.Fatal(err)
			}
			store, err := roamcard.NewFileStore(folder)
			if err != nil {
				t.Fatal(err)
			}
			signer, err := roamcard.NewKeySigner(key)
			if err != nil {
				t.Fatal(err)
			}
			client, err := roamcard.New(roamcard.Config{
				BaseURL: "https://roamcard.example", Signer: signer, Store: store,
				Now: func() time.Time { return time.Unix(v.Now, 0) },
			})
			if err != nil {
				t.Fatal(err)
			}
			pending, err := client.Pending(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, e := range pending {
				keys = append(keys, e.Key)
			}
			if !slices.Equal(keys, v.Pending) {
				t.Errorf("pending %q, want %q", keys, v.Pending)
			}
			budget, err := client.Budget(t.Context())
			if units, _ := strconv.ParseInt(v.Spent, 10, 64); err != nil || int64(budget.Spent)*10_000 != units {
				t.Errorf("spent %s, %v; want %s units", budget.Spent, err, v.Spent)
			}
			rewritten(t, store, folder, v.Book)
		})
	}
}

// rewritten checks that a journal that is written again says the same, in the next generation.
func rewritten(t *testing.T, store *roamcard.FileStore, folder string, want []byte) {
	t.Helper()
	if err := store.Update(t.Context(), func(*roamcard.Book) error { return nil }); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "journal.json"))
	var got, wanted any
	if err := errors.Join(err, json.Unmarshal(data, &got), json.Unmarshal(want, &wanted)); err != nil {
		t.Fatal(err)
	}
	generation, _ := wanted.(map[string]any)["generation"].(float64)
	wanted.(map[string]any)["generation"] = generation + 1
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(folder, "journal.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
}

func TestJournalThatCannotBeReadSignsNothing(t *testing.T) {
	for _, v := range readVectors(t).Refused {
		path := filepath.Join(t.TempDir(), "journal.json")
		if err := os.WriteFile(path, []byte(v.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := roamcard.NewFileStore(path)
		if failed, ok := errors.AsType[*roamcard.JournalError](err); !ok || failed.File != path ||
			string(failed.Reason) != v.Reason {
			t.Errorf("%s: %v; want one that is %s", v.Name, err, v.Reason)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != v.Text {
			t.Errorf("%s: the file was changed", v.Name)
		}
	}
}

// While somebody is asked, the clients of the other languages can read the journal.
func TestReservedPurchaseHasTheSchemaOfEveryLanguage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	store, err := roamcard.NewFileStore(path)
	if err != nil {
		t.Fatal(err)
	}
	s, asked := open(t), 0
	p, _ := payer(t, store)
	p.Policy.Mode = roamcard.HumanApproval
	p.Policy.Approve = func(context.Context, roamcard.Quote) (bool, error) {
		asked++
		var book struct {
			Purchases map[string]map[string]any `json:"purchases"`
		}
		data, err := os.ReadFile(path)
		if err := errors.Join(err, json.Unmarshal(data, &book)); err != nil || len(book.Purchases) != 1 {
			t.Errorf("%v, %s", err, data)
		}
		for _, e := range book.Purchases {
			if list, ok := e["authorizations"].([]any); !ok || len(list) != 0 {
				t.Errorf("the authorizations are %v", e["authorizations"])
			}
		}
		return false, nil
	}
	if _, err := buy(p, s, "k"); !errors.Is(err, roamcard.ErrApprovalDenied) || asked != 1 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

// A journal on a file system that takes no more is told by its name, and nothing is signed.
func TestJournalOnAFullOrReadOnlyDiskSignsNothing(t *testing.T) {
	for option, reason := range map[string]roamcard.JournalReason{"size=64k": roamcard.JournalFull,
		"ro": roamcard.JournalReadOnly} {
		folder := t.TempDir()
		mount := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,"+option, "tmpfs", folder)
		if out, err := mount.CombinedOutput(); err != nil {
			t.Skipf("no file system can be mounted here: %v, %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", folder).Run() })
		store, err := roamcard.NewFileStore(folder)
		if err != nil {
			t.Fatal(err)
		}
		if reason == roamcard.JournalFull {
			_ = os.WriteFile(filepath.Join(folder, "filler"), make([]byte, 1<<20), 0o600)
		}
		s := open(t)
		p, signed := payer(t, store)
		_, err = buy(p, s, "k")
		if failed, ok := errors.AsType[*roamcard.JournalError](err); !ok || failed.Reason != reason || signed.n != 0 {
			t.Errorf("%s: %v, signed %d", option, err, signed.n)
		}
	}
}

// Processes that share a folder lose no change of each other, also when some are killed while they hold the lock.
func TestJournalIsSharedByProcessesThatDie(t *testing.T) {
	folder := t.TempDir()
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestJournalWriter$")
			cmd.Env = append(os.Environ(), "JOURNAL_FOLDER="+folder, fmt.Sprintf("JOURNAL_WRITER=%d", i))
			out, err := cmd.CombinedOutput()
			if dies := i == 3; dies != (err != nil) {
				t.Errorf("writer %d: %v\n%s", i, err, out)
			}
		})
	}
	writers.Wait()
	store, err := roamcard.NewFileStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for n := range writerChanges {
			if b.Payees[fmt.Sprintf("https://%d.example/%d", i, n)] == "" {
				t.Fatalf("change %d of writer %d is lost", n, i)
			}
		}
	}
}

const writerChanges = 40

// TestJournalWriter is no test: it is a process that writes, and the last one dies holding the lock.
func TestJournalWriter(t *testing.T) {
	folder := os.Getenv("JOURNAL_FOLDER")
	if folder == "" {
		t.Skip("run by TestJournalIsSharedByProcessesThatDie")
	}
	store, err := roamcard.NewFileStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	for n := range writerChanges {
		err := store.Update(context.Background(), func(b *roamcard.Book) error {
			if os.Getenv("JOURNAL_WRITER") == "3" && n == 5 {
				os.Exit(9)
			}
			b.Payees[fmt.Sprintf("https://%s.example/%d", os.Getenv("JOURNAL_WRITER"), n)] = payTo
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
