package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDocumentsAreDescribedInAdditionToTheProtos(t *testing.T) {
	document := shopDocument(t)
	contract := at(t, document, "paths//api/agent/get")
	equal(t, at(t, contract, "tags"), []any{"Discovery"})
	equal(t, at(t, contract, "security"), []any{})
	equal(t, at(t, contract, "summary"), "The contract for agents: products, payment terms, ownership, wallet, errors")
	equal(t, at(t, contract, "responses/200/headers/ETag"), object{"$ref": "#/components/headers/ETag"})
	equal(t, at(t, contract, "responses/200/content/application~json/schema"),
		object{"$ref": "#/components/schemas/AgentContract"})
	for _, status := range []string{"304", "429", "500"} {
		at(t, contract, "responses/"+status)
	}
	call := at(t, document, "paths//mcp/post")
	equal(t, at(t, call, "responses/429/$ref"), "#/components/responses/TooManyRequests")
	if _, left := call.(object)["x-problems"]; left {
		t.Error("what is for the generator is shown to readers")
	}
}

// TestOnlyUsedSchemesAreShown keeps readers from looking for a way in that no operation takes.
func TestOnlyUsedSchemesAreShown(t *testing.T) {
	document := shopDocument(t)
	text, err := json.Marshal(at(t, document, "paths"))
	if err != nil {
		t.Fatal(err)
	}
	schemes := at(t, document, "components/securitySchemes").(object)
	if len(schemes) == 0 {
		t.Error("no scheme is shown")
	}
	for name := range schemes {
		if !strings.Contains(string(text), `"`+name+`":[`) {
			t.Errorf("the scheme %s is shown and not used", name)
		}
	}
}
