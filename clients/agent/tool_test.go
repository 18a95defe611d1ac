package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// session serves a client in this process.
func session(t *testing.T, c Config) *sdk.ClientSession {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	here, there := sdk.NewInMemoryTransports()
	ended := make(chan error, 1)
	ctx := context.WithoutCancel(t.Context()) // it ends with its client
	go func() { ended <- New(c).Run(ctx, there) }()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, nil).Connect(ctx, here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		<-ended
	})
	return client
}

func toolsOf(t *testing.T, c *sdk.ClientSession) []*sdk.Tool {
	t.Helper()
	listed, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return listed.Tools
}

// refusalOf is the Problem that a call is refused with, which has to be what the tool's output schema allows.
func refusalOf(t *testing.T, c *sdk.ClientSession, tool *sdk.Tool, arguments any) Problem {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name, Arguments: arguments})
	if err != nil || !res.IsError {
		t.Fatalf("%s: %+v, %v", tool.Name, res, err)
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var p Problem
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if err := resolved(t, tool.OutputSchema).Validate(res.StructuredContent); err != nil {
		t.Errorf("%s: %v", tool.Name, err)
	}
	return p
}

func resolved(t *testing.T, listed any) *jsonschema.Resolved {
	t.Helper()
	text, err := json.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Output schemas are part of every conversation. All of them had 19,050 bytes.
func TestOutputSchemasAreSmallAndHoldAnswers(t *testing.T) {
	t.Parallel()
	size := 0
	byName := map[string]*sdk.Tool{}
	for _, tool := range toolsOf(t, session(t, Config{Store: roamcard.NewMemoryStore()})) {
		text, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
		byName[tool.Name] = tool
	}
	if len(byName) != 16 || size > 19_050/2 {
		t.Errorf("the output schemas of %d tools have %d bytes", len(byName), size)
	}
	order := orderOf(&roamcardv1.Order{OrderId: "ord_1", Kind: "esim", Status: "fulfilled"})
	for name, c := range map[string]struct {
		answer any
		wrong  string // a member without which it is no answer
	}{
		"buy_card":         {Bought{Status: "paid", Order: &order}, "replayed"},
		"get_order":        {Progress{Status: "processing"}, "status"},
		"list_cards":       {Cards{Cards: []Card{{CardID: "c"}}}, "cards"},
		"list_esim_plans":  {plansOf([]*roamcardv1.EsimPlan{{PlanId: "p"}}, 0), "total"},
		"get_wallet":       {Wallet{Operations: []string{"buy_card"}, Pending: []PendingItem{}}, "pending"},
		"get_card_details": {CardDetails{CardID: "c", Billing: &BillingAddress{Name: "n"}}, "cardId"},
	} {
		text, err := json.Marshal(c.answer)
		if err != nil {
			t.Fatal(err)
		}
		var value map[string]any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		schema := resolved(t, byName[name].OutputSchema)
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if delete(value, c.wrong); schema.Validate(value) == nil {
			t.Errorf("%s without %s is allowed", name, c.wrong)
		}
	}
}

// A client that only sees the process end knows nothing of what is missing.
func TestServerWithoutSettingsListsToolsAndRefusesCalls(t *testing.T) {
	t.Parallel()
	_, missing := ReadSettings(filepath.Join(t.TempDir(), "agent.json"))
	if missing == nil {
		t.Fatal("there are settings")
	}
	c := session(t, Config{Unusable: missing})
	tools := toolsOf(t, c)
	if len(tools) != 16 {
		t.Errorf("%d tools", len(tools))
	}
	for _, tool := range tools {
		p := refusalOf(t, c, tool, map[string]any{})
		if p.Code != "settings_unusable" || p.NextAction != askUser || !strings.Contains(p.Detail, "agent.json") ||
			!strings.Contains(p.Detail, "roamcard mcp install") {
			t.Errorf("%s: %+v", tool.Name, p)
		}
	}
}

// Who is told to delete a journal pays twice.
func TestServerWithoutJournalAsksForABackup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "journal.json")
	if err := os.WriteFile(file, []byte(`{"vers`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, broken := roamcard.NewFileStore(file)
	if broken == nil {
		t.Fatal("half a journal is taken")
	}
	c := session(t, Config{Unusable: broken})
	for _, tool := range toolsOf(t, c) {
		p := refusalOf(t, c, tool, map[string]any{})
		if p.Code != "journal_unusable" || p.NextAction != askUser || !strings.Contains(p.Detail, file) ||
			!strings.Contains(p.Detail, "backup") || strings.Contains(p.Detail, "delete") {
			t.Errorf("%s: %+v", tool.Name, p)
		}
	}
}

func TestArgumentErrorsNameWhatIsAllowed(t *testing.T) {
	t.Parallel()
	c := session(t, Config{Store: roamcard.NewMemoryStore()})
	byName := map[string]*sdk.Tool{}
	for _, tool := range toolsOf(t, c) {
		byName[tool.Name] = tool
		// Whatever is wrong, each argument is named.
		p := refusalOf(t, c, tool, map[string]any{"nothing like it": 1})
		text, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var input jsonschema.Schema
		if err := json.Unmarshal(text, &input); err != nil {
			t.Fatal(err)
		}
		for name := range input.Properties {
			if !strings.Contains(p.Detail, name+", ") {
				t.Errorf("%s says nothing of %s: %s", tool.Name, name, p.Detail)
			}
		}
		if p.Code != "arguments_invalid" || p.NextAction != fixArguments ||
			len(input.Properties) == 0 && !strings.Contains(p.Detail, "no arguments") {
			t.Errorf("%s: %+v", tool.Name, p)
		}
	}
	for _, wrong := range []struct {
		tool      string
		arguments map[string]any
		part      string
	}{
		{"top_up_card", map[string]any{"purchaseKey": "k", "amountUsdCents": 2499}, "a whole number from 2500 to 25000"},
		{"top_up_card", map[string]any{"purchaseKey": "k", "amountUsdCents": 2500.5}, "a whole number from 2500 to 25000"},
		{"buy_card", map[string]any{"purchaseKey": ""}, "a text of 1 to 200 characters, needed"},
		{"buy_esim", map[string]any{"purchaseKey": "k", "planId": ""}, "planId, a text"},
		{"quote", map[string]any{"tool": "buy_plane"}, "buy_card or top_up_card or buy_esim, needed"},
		{"list_esim_plans", map[string]any{"type": "planet"}, "country or region"},
		{"list_esim_plans", map[string]any{"countryCode": "Japan"}, "two letters"},
		{"list_esim_plans", map[string]any{"offset": -1}, "a whole number of 0 or more"},
	} {
		p := refusalOf(t, c, byName[wrong.tool], wrong.arguments)
		if p.Code != "arguments_invalid" || !strings.Contains(p.Detail, wrong.part) {
			t.Errorf("%s %v: %s", wrong.tool, wrong.arguments, p.Detail)
		}
	}
}

// A whole number has many spellings, and an eSIM needs no plan.
func TestArgumentsThatAreAllowedAreTaken(t *testing.T) {
	t.Parallel()
	noWallet := errors.New("there is none")
	c := session(t, Config{
		Settings: Settings{Origin: "https://a.example"}, Store: roamcard.NewMemoryStore(),
		OpenSigner: func(context.Context) (roamcard.Signer, error) { return nil, noWallet },
	})
	for _, tool := range toolsOf(t, c) {
		for _, arguments := range map[string][]string{
			"top_up_card": {`{"purchaseKey":"k","amountUsdCents":2500.0}`, `{"purchaseKey":"k2","amountUsdCents":2.5e3}`},
			"buy_esim":    {`{"purchaseKey":"k3"}`, `{"purchaseKey":"k4","planId":null}`, `{"purchaseKey":"k5","planId":"p"}`},
		}[tool.Name] {
			if p := refusalOf(t, c, tool, json.RawMessage(arguments)); p.Code != "signer_failed" {
				t.Errorf("%s %s: %+v", tool.Name, arguments, p)
			}
		}
	}
	terms := someTerms
	terms.Tool = "buy_esim"
	if q := terms.Question(); !strings.Contains(q, "for the cheapest eSIM plan?") {
		t.Error(q)
	}
}

// A model that is told to fix its arguments tries until it gives up.
func TestArgumentsAreFixedOnlyWhereOneHelps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  roamcard.APIError
		want string
	}{
		"a member":      {roamcard.APIError{Status: 400, Fields: []string{"amountUsdCents: at least 2500"}}, fixArguments},
		"an unknown id": {roamcard.APIError{Status: 404}, fixArguments},
		"a second card": {roamcard.APIError{Status: 409}, askUser},
		"a bad request": {roamcard.APIError{Status: 400}, askUser},
	} {
		c.err.Code, c.err.NextAction = "some_code", "fix_request"
		if p := refused(&c.err); p.NextAction != c.want {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
