package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/gen"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// schema is a part of a JSON schema of the OpenAPI document.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Minimum    *json.Number      `json:"minimum"`
	Maximum    *json.Number      `json:"maximum"`
	Properties map[string]schema `json:"properties"`
}

// edges are numbers at the edges of a schema, and whether it takes them, and what is no integer. Each in all spellings.
func (s schema) edges(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	if s.Minimum == nil || s.Maximum == nil {
		t.Fatalf("%+v has no limits", s)
	}
	limit := func(n *json.Number) *big.Int {
		at, ok := new(big.Int).SetString(n.String(), 10)
		if !ok {
			t.Fatalf("the limit %s", n)
		}
		return at
	}
	least, most := limit(s.Minimum), limit(s.Maximum)
	one := big.NewInt(1)
	for _, n := range []*big.Int{
		least, most, new(big.Int).Sub(least, one), new(big.Int).Add(most, one), new(big.Int).Add(least, one),
		new(big.Int).Sub(most, one), new(big.Int).Lsh(one, 32), new(big.Int).Lsh(one, 53), new(big.Int).Lsh(one, 64),
	} {
		taken := n.Cmp(least) >= 0 && n.Cmp(most) <= 0
		for _, form := range []string{"%s", "%s.0", "%s.000", "%se0", "%sE+0", "%s00e-2", "%s0.0e-1"} {
			if n.Sign() != 0 || !strings.HasPrefix(form, "%s0") {
				all[fmt.Sprintf(form, n)] = taken
			}
		}
		for _, form := range []string{"%s.5", "%s.0000000000000000001", "%s.1e0"} {
			all[fmt.Sprintf(form, n)] = false
		}
	}
	for _, text := range []string{"1e-400", "1e400", "1e999999999", "true", "0.5"} {
		all[text] = false
	}
	return all
}

// TestEverySchemaAgreesWithTheServer gives each integer of the API at its edges, in every spelling of JSON, to the gate
// and the rules that requests pass.
func TestEverySchemaAgreesWithTheServer(t *testing.T) {
	var api struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct {
				Ref    string `json:"$ref"`
				Name   string `json:"name"`
				Schema schema `json:"schema"`
			} `json:"parameters"`
			RequestBody struct {
				Content map[string]struct {
					Schema schema `json:"schema"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
		Components struct {
			Schemas    map[string]schema `json:"schemas"`
			Parameters map[string]struct {
				Name   string `json:"name"`
				Schema schema `json:"schema"`
			} `json:"parameters"`
		} `json:"components"`
	}
	if err := json.Unmarshal(gen.OpenAPI, &api); err != nil {
		t.Fatal(err)
	}
	inputs := map[string]protoreflect.MessageDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("roamcard.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				method := file.Services().Get(i).Methods().Get(j)
				inputs[string(method.Name())] = method.Input()
			}
		}
		return true
	})
	bodies, parameters := 0, 0
	for path, operations := range api.Paths {
		for verb, op := range operations {
			input, ok := inputs[op.OperationID]
			if !ok {
				continue // not of the API's own methods
			}
			at := verb + " " + path
			for _, p := range op.Parameters {
				if name, shared := strings.CutPrefix(p.Ref, "#/components/parameters/"); shared {
					p.Name, p.Schema = api.Components.Parameters[name].Name, api.Components.Parameters[name].Schema
				}
				if p.Schema.Type != "integer" {
					continue
				}
				parameters++
				for text, taken := range p.Schema.edges(t) {
					value, problem, ok := rpcx.JSONFromText(input.Fields().ByJSONName(p.Name), p.Name, text)
					if ok {
						ok = accepts(t, input, p.Name, string(value)) == ""
					}
					if ok != taken {
						t.Errorf("%s: %s=%s is taken: %v, %v", at, p.Name, text, ok, problem)
					}
				}
			}
			body := op.RequestBody.Content["application/json"].Schema
			if name, shared := strings.CutPrefix(body.Ref, "#/components/schemas/"); shared {
				body = api.Components.Schemas[name]
			}
			for name, member := range body.Properties {
				if member.Type != "integer" {
					continue
				}
				bodies++
				for text, taken := range member.edges(t) {
					if problem := accepts(t, input, name, text); (problem == "") != taken {
						t.Errorf("%s: %s %s is taken: %v, %s", at, name, text, problem == "", problem)
					}
				}
				for _, text := range []string{`"7"`, "null", "[1]", `{}`} {
					if accepts(t, input, name, text) == "" {
						t.Errorf("%s: %s %s is taken", at, name, text)
					}
				}
			}
		}
	}
	if bodies < 10 || parameters < 10 {
		t.Errorf("%d integers in bodies and %d parameters", bodies, parameters)
	}
}

// accepts is the rule that a message's member breaks; empty for a value that it may have.
func accepts(t *testing.T, input protoreflect.MessageDescriptor, name, value string) string {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(input.FullName())
	if err != nil {
		t.Fatal(err)
	}
	message := kind.New().Interface()
	if err := rpcx.UnmarshalJSON([]byte(`{"`+name+`":`+value+`}`), message); err != nil {
		f, ok := fault.As(err)
		if !ok || len(f.Fields) == 0 || f.Fields[0].Path != name {
			t.Errorf("%s %s: %v names another member", name, value, err)
		}
		return err.Error()
	}
	err = protovalidate.Validate(message)
	if broken, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
		for _, v := range broken.Violations {
			if protovalidate.FieldPathString(v.Proto.GetField()) == string(input.Fields().ByJSONName(name).Name()) {
				return v.String()
			}
		}
		return ""
	}
	if err != nil {
		t.Errorf("%s %s: %v", name, value, err)
	}
	return ""
}

// TestEncodedBodyIsToldItsEncoding: a packed body is of the right type.
func TestEncodedBodyIsToldItsEncoding(t *testing.T) {
	for _, encoding := range []string{"gzip", "br", "deflate, gzip", "GZIP"} {
		w := ask(t, newRouter(t, &fakeServices{}), "POST", "/api/card/purchase", key, "Content-Encoding", encoding)
		p := readProblem(t, w.Body.Bytes())
		if w.Code != http.StatusUnsupportedMediaType || w.Header().Get("Accept-Encoding") != "identity" ||
			!strings.Contains(p.Detail, "Content-Encoding") {
			t.Errorf("%s: %d %v %s", encoding, w.Code, w.Header(), w.Body)
		}
	}
	w := ask(t, newRouter(t, &fakeServices{}), "POST", "/api/card/purchase", key, "Content-Type", "text/plain")
	if w.Header().Get("Accept-Encoding") != "" || w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("another type: %d %v", w.Code, w.Header())
	}
}
