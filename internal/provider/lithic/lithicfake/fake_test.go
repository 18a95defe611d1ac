package lithicfake_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
