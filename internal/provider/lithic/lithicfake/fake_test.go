package lithicfake_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
)

// ask sends a request, and returns the status and the answer.
func ask(t *testing.T, s *lithicfake.Server, method, path, key, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", lithicfake.DevKey)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Code, answer
}

const virtual = `{"type":"VIRTUAL","state":"OPEN","card_program_token":"` + lithicfake.Program + `","memo":"one"}`

func made(t *testing.T, s *lithicfake.Server) string {
	t.Helper()
	status, answer := ask(t, s, http.MethodPost, "/v1/cards", uuid.NewString(), virtual)
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	return answer["token"].(string)
}

func moving(token, from, to, amount string) string {
	return `{"token":"` + token + `","amount":` + amount + `,"from_financial_account_token":"` + from +
		`","to_financial_account_token":"` + to + `","category":"TRANSFER","type":"TRANSFER","subtype":"s"}`
}

func TestKeyAndTokenAreTakenOnce(t *testing.T) {
	s := lithicfake.New(lithicfake.Config{Float: 1000})
	key := uuid.NewString()
	_, first := ask(t, s, http.MethodPost, "/v1/cards", key, virtual)
	status, again := ask(t, s, http.MethodPost, "/v1/cards", key, virtual)
	if status != http.StatusOK || again["token"] != first["token"] || len(s.Cards()) != 1 {
		t.Errorf("the same request made %d %v", status, again)
	}
	other := strings.Replace(virtual, "one", "two", 1)
	if status, _ := ask(t, s, http.MethodPost, "/v1/cards", key, other); status != 422 {
		t.Errorf("another request with the key: %d", status)
	}
	card, token := first["token"].(string), uuid.NewString()
	for range 2 {
		status, moved := ask(t, s, http.MethodPost, "/v1/book_transfers", "", moving(token, lithicfake.Float, card, "600"))
		if status != http.StatusOK || moved["status"] != "SETTLED" {
			t.Errorf("a transfer: %d %v", status, moved)
		}
	}
	if status, _ := ask(t, s, http.MethodPost, "/v1/book_transfers", "",
		moving(token, lithicfake.Float, card, "601")); status != 400 {
		t.Errorf("another transfer by the token: %d", status)
	}
	status, declined := ask(t, s, http.MethodPost, "/v1/book_transfers", "",
		moving(uuid.NewString(), lithicfake.Float, card, "401"))
	if status != http.StatusOK || declined["status"] != "DECLINED" || declined["settled_amount"] != 0.0 {
		t.Errorf("more than there is: %d %v", status, declined)
	}
	if s.FloatBalance() != 400 || s.Cards()[0].Balance != 600 {
		t.Errorf("%d in the float, %d on the card", s.FloatBalance(), s.Cards()[0].Balance)
	}
}

func TestStrangersSeeNothing(t *testing.T) {
	s := lithicfake.New(lithicfake.Config{Key: "another"})
	if status, _ := ask(t, s, http.MethodGet, "/v1/cards", "", ""); status != http.StatusUnauthorized {
		t.Errorf("without the key: %d", status)
	}
	r := httptest.NewRequest(http.MethodGet, "/control/books", nil) // from 192.0.2.1
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("the books are shown to a stranger: %d", w.Code)
	}
}

func TestBooksShowNoNumbers(t *testing.T) {
	s := lithicfake.New(lithicfake.Config{Numbers: true})
	made(t, s)
	r := httptest.NewRequest(http.MethodGet, "/control/books", nil)
	r.RemoteAddr = "127.0.0.1:4000"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), s.Cards()[0].Number) ||
		!strings.Contains(w.Body.String(), s.Cards()[0].Token) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestListsHaveNumbersOfNoCard(t *testing.T) {
	s := lithicfake.New(lithicfake.Config{Numbers: true})
	token := made(t, s)
	_, list := ask(t, s, http.MethodGet, "/v1/cards?memo=on", "", "")
	all := list["data"].([]any)
	if len(all) != 1 || all[0].(map[string]any)["pan"] != nil {
		t.Errorf("listed: %v", all)
	}
	if _, one := ask(t, s, http.MethodGet, "/v1/cards/"+token, "", ""); one["pan"] != s.Cards()[0].Number {
		t.Errorf("read: %v", one)
	}
}

func TestClosedCardsTakeNothing(t *testing.T) {
	s := lithicfake.New(lithicfake.Config{})
	token := made(t, s)
	if status, _ := ask(t, s, http.MethodPatch, "/v1/cards/"+token, "", `{"state":"CLOSED"}`); status != 200 {
		t.Errorf("closed: %d", status)
	}
	for _, body := range []string{
		moving(uuid.NewString(), lithicfake.Float, token, "1"), moving(uuid.NewString(), token, lithicfake.Float, "1"),
	} {
		if status, _ := ask(t, s, http.MethodPost, "/v1/book_transfers", "", body); status != http.StatusBadRequest {
			t.Errorf("moved: %d", status)
		}
	}
	if status, _ := ask(t, s, http.MethodPatch, "/v1/cards/"+token, "", `{"state":"OPEN"}`); status != 400 {
		t.Errorf("opened again: %d", status)
	}
}

// TestBooksAreByTheClientsReferences: a test compares them with the client's own.
func TestBooksAreByTheClientsReferences(t *testing.T) {
	s := lithicfake.New(lithicfake.Config{})
	const reference = "0b9cb3c6-4b65-4c0a-8f0e-7d7f0f6b1c04"
	named := strings.Replace(virtual, `"one"`, `"roamcard `+reference+` 2500 0xaa"`, 1)
	_, c := ask(t, s, http.MethodPost, "/v1/cards", uuid.NewString(), named)
	card, _ := c["token"].(string)
	load, fee, refused := uuid.NewString(), uuid.NewString(), uuid.NewString()
	for _, body := range []string{
		strings.Replace(moving(uuid.NewString(), lithicfake.Float, card, "2500"), `"subtype"`,
			`"memo":"roamcard opening","subtype"`, 1),
		moving(load, lithicfake.Float, card, "700"), moving(fee, card, lithicfake.Float, "1000"),
		moving(refused, card, lithicfake.Float, "9999"),
	} {
		if status, answer := ask(t, s, http.MethodPost, "/v1/book_transfers", "", body); status != http.StatusOK {
			t.Fatalf("%s: %d %v", body, status, answer)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/control/books", nil)
	r.RemoteAddr = "127.0.0.1:4000"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	type move struct {
		Reference, CardID, Direction, Status string
		AmountCents                          int64
	}
	type books struct {
		Cards []struct {
			ID, Reference, Status   string
			LoadCents, BalanceCents int64
		}
		Movements []move
		Executed  map[string]int
	}
	var got books
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Cards) != 1 || got.Cards[0].ID != card || got.Cards[0].Reference != reference ||
		got.Cards[0].Status != "live" || got.Cards[0].LoadCents != 2500 || got.Cards[0].BalanceCents != 2200 {
		t.Errorf("cards %+v", got.Cards)
	}
	if want := []move{
		{load, card, "in", "done", 700}, {fee, card, "out", "done", 1000}, {refused, card, "out", "declined", 9999},
	}; !slices.Equal(got.Movements, want) {
		t.Errorf("movements %+v, want %+v", got.Movements, want)
	}
	if got.Executed[reference] != 1 || got.Executed[fee] != 1 {
		t.Errorf("executed %v", got.Executed)
	}
}
