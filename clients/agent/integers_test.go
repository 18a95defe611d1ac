package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestArgumentsAreIntegersInEverySpelling: what the schema calls an integer is one, exactly.
func TestArgumentsAreIntegersInEverySpelling(t *testing.T) {
	t.Parallel()
	type in struct {
		Cents int64   `json:"cents"`
		All   []int64 `json:"all,omitempty"`
	}
	arguments, err := schema[in]().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Config: Config{Log: slog.New(slog.DiscardHandler)}}
	ask := func(text string) (got *in, err error) {
		c := call{CallToolRequest: &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{
			Name: "t", Arguments: json.RawMessage(text),
		}}, server: s}
		_, err = answer(t.Context(), c, arguments, "", func(_ context.Context, _ call, given in) (string, error) {
			got = &given
			return "", nil
		})
		return got, err
	}
	for text, want := range map[string]int64{
		"2500": 2500, "2500.0": 2500, "2.5e3": 2500, "25000e-1": 2500, "-0.0": 0, "9007199254740993": 9007199254740993,
		"9007199254740993.0": 9007199254740993,
	} {
		got, err := ask(fmt.Sprintf(`{"cents":%s,"all":[%s]}`, text, text))
		if err != nil || got == nil || got.Cents != want || got.All[0] != want {
			t.Errorf("%s is %+v, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"2500.5", "1e-1", `"2500"`, "true", "1e19", "1e999999999", "2500.0000000000000000001"} {
		got, err := ask(`{"cents":` + text + `}`)
		if p, ok := errors.AsType[*Problem](err); !ok || got != nil || p.Code != "arguments_invalid" {
			t.Errorf("%s is taken as %+v, %v", text, got, err)
		}
	}
}
