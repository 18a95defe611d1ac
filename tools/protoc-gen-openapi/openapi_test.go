package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

const root = "../.."

func TestCommittedDocumentIsCurrent(t *testing.T) {
	set := build(t, root)
	var named []string
	for _, f := range set.File {
		if strings.HasPrefix(f.GetName(), "roamcard/") {
			named = append(named, f.GetName())
		}
	}
	got, err := describe(set.File, named, problems(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, "gen/openapi/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("gen/openapi/openapi.json is not what the protos say: run make gen")
	}
}

func TestDocumentIsTheSameEveryTime(t *testing.T) {
	set := shop(t, nil)
	first, err := describe(set.File, []string{"shop.proto"}, problems(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		again, err := describe(set.File, []string{"shop.proto"}, problems(t))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, again) {
			t.Fatal("two runs differ")
		}
	}
	if !bytes.HasSuffix(first, []byte("}\n")) {
		t.Error("no newline at the end")
	}
}

func TestMemberIsRequiredWhenRulesRefuseItsAbsence(t *testing.T) {
	schema := at(t, shopDocument(t), "components/schemas/PutRequest")
	want := []any{
		"minLen", "uuid", "chosen", "pattern", "atLeastOne", "aboveZero", "belowZero", "agreed", "label", "optionalRequired",
	}
	equal(t, at(t, schema, "required"), want)
	equal(t, at(t, schema, "additionalProperties"), false)
	if at(t, schema, "properties").(object)["shelfId"] != nil {
		t.Error("the path's field is in the body too")
	}
}

func TestAnswerAlwaysHasWhatHasNoPresence(t *testing.T) {
	schema := at(t, shopDocument(t), "components/schemas/PutResult")
	equal(t, at(t, schema, "required"), []any{"always", "things"})
	equal(t, at(t, schema, "properties/amount"),
		object{"oneOf": []any{object{"type": "number"}, object{"type": "string"}}})
	equal(t, at(t, schema, "properties/extra"), object{"type": "object", "additionalProperties": true})
	equal(t, at(t, schema, "properties/putAt"), object{"type": "string", "format": "date-time"})
	if _, closed := schema.(object)["additionalProperties"]; closed {
		t.Error("an answer must be free to grow")
	}
}

func TestRulesBecomeKeywords(t *testing.T) {
	properties := at(t, shopDocument(t), "components/schemas/PutRequest/properties")
	for name, want := range map[string]object{
		"minLen":     {"type": "string", "minLength": 1.0, "pattern": noNUL},
		"maxLen":     {"type": "string", "maxLength": 9.0, "pattern": noNUL},
		"uuid":       {"type": "string", "format": "uuid"},
		"chosen":     {"type": "string", "enum": []any{"a", "b"}},
		"pattern":    {"type": "string", "pattern": "^0x[0-9a-f]+$"},
		"atLeastOne": {"type": "integer", "minimum": 1.0, "maximum": 4294967295.0},
		"aboveZero":  {"type": "integer", "exclusiveMinimum": 0.0, "minimum": -2147483648.0, "maximum": 2147483647.0},
		"free":       {"type": "integer", "minimum": 0.0, "maximum": 4294967295.0},
		"agreed":     {"type": "boolean", "const": true},
		"ratio":      {"type": "number", "maximum": 1.0},
	} {
		t.Run(name, func(t *testing.T) { equal(t, at(t, properties, name), want) })
	}
}

func TestFieldsOutsidePathAreQueryOfMethodWithoutBody(t *testing.T) {
	find := at(t, shopDocument(t), "paths//shelves/{shelfId}/get")
	equal(t, at(t, find, "parameters"), []any{
		object{
			"name": "shelfId", "in": "path", "required": true, "description": "Where to look.",
			"schema": object{"type": "string", "format": "uuid"},
		},
		object{"name": "colour", "in": "query", "required": true, "schema": object{
			"type": "array", "minItems": 1.0, "maxItems": 3.0, "uniqueItems": true,
			"items": object{"type": "string", "enum": []any{"red", "blue"}},
		}},
		object{"name": "pageSize", "in": "query", "required": false, "schema": object{
			"type": "integer", "minimum": 1.0, "maximum": 100.0,
		}},
	})
	if _, ok := find.(object)["requestBody"]; ok {
		t.Error("a GET with a body")
	}
}

func TestResponseBodySelectsField(t *testing.T) {
	document := shopDocument(t)
	schema := at(t, document, "paths//shelves/{shelfId}/get/responses/200/content/application~json/schema")
	equal(t, schema, object{"type": "array", "items": object{"$ref": "#/components/schemas/Thing"}})
	if at(t, document, "components/schemas").(object)["FindResult"] != nil {
		t.Error("the wrapper is in the document although nobody sees it")
	}
}

func TestPathWithGetAndPostKeepsBoth(t *testing.T) {
	paths := at(t, shopDocument(t), "paths")
	equal(t, at(t, paths, "/pay/{orderId}/get/operationId"), "Pay")
	equal(t, at(t, paths, "/pay/{orderId}/post/operationId"), "Pay2")
	equal(t, at(t, paths, "/api/pay/{orderId}/get/operationId"), "Pay3")
	if _, ok := at(t, paths, "/pay/{orderId}/post").(object)["requestBody"]; ok {
		t.Error("the POST takes a body although its rule has none")
	}
}

func TestAccessBecomesSecurity(t *testing.T) {
	paths := at(t, shopDocument(t), "paths")
	for path, want := range map[string][]any{
		"/shelves/{shelfId}/get":  {},
		"/shelves/{shelfId}/post": {object{"walletSession": []any{}}, object{"signInWithX": []any{}}},
		"/pay/{orderId}/get":      {object{"deliveryToken": []any{}}, object{"walletSession": []any{}}},
		"/sweep/post":             {object{"operatorKey": []any{"admin"}}},
	} {
		t.Run(path, func(t *testing.T) { equal(t, at(t, paths, path+"/security"), want) })
	}
	equal(t, at(t, paths, "/shelves/{shelfId}/post/x-required-scope"), "cards")
	if payer, err := (policy{Access: "ACCESS_PAYER"}).security(); err != nil || len(payer) > 0 {
		t.Errorf("a payment is asked for as security: %v, %v", payer, err)
	}
	if _, err := (policy{}).security(); err == nil {
		t.Error("a method without policy passes")
	}
}

func TestPolicyBecomesHeadersAndProblems(t *testing.T) {
	document := shopDocument(t)
	put := at(t, document, "paths//shelves/{shelfId}/post")
	equal(t, at(t, put, "parameters").([]any)[1], any(object{"$ref": "#/components/parameters/IdempotencyKey"}))
	equal(t, at(t, put, "responses/200/headers"), object{
		"Cache-Control": object{"$ref": "#/components/headers/NoStore"},
		"X-Request-Id":  object{"$ref": "#/components/headers/RequestId"},
	})
	equal(t, at(t, put, "requestBody/description"), "At most 512 bytes.")
	equal(t, at(t, put, "requestBody/required"), true)
	equal(t, at(t, document, "paths//sweep/post/requestBody/required"), false)

	var statuses []string
	for status := range at(t, put, "responses").(object) {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	equal(t, statuses, []string{"200", "400", "401", "404", "409", "413", "415", "429", "500", "503"})
	equal(t, at(t, put, "responses/404"), object{
		"$ref":        "#/components/responses/NotFound",
		"description": "* `card_not_found`: There is no such card.\n* `order_not_found`: There is no such order.",
	})
	unavailable := at(t, document, "components/responses/ServiceUnavailable")
	equal(t, at(t, unavailable, "headers/Retry-After"), object{"$ref": "#/components/headers/RetryAfter"})
	equal(t, at(t, unavailable, "content/application~problem+json/examples/issue_paused/value/nextAction"),
		"wait_and_retry")
}

func TestPaidMethodShowsPaymentOnBothLegs(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "gen/openapi/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	document := decode(t, raw)
	purchase := at(t, document, "paths//api/card/purchase/post")
	equal(t, at(t, purchase, "parameters"), []any{
		object{"$ref": "#/components/parameters/PaymentSignature"}, object{"$ref": "#/components/parameters/SignInWithX"},
	})
	equal(t, at(t, purchase, "security"), []any{})
	equal(t, at(t, purchase, "x-payment-info/price"), object{"mode": "fixed", "currency": "USD", "amount": "25.00"})
	for _, leg := range []string{"first", "paid"} {
		equal(t, at(t, purchase, "requestBody/content/application~json/examples/"+leg+"/value"),
			object{"idempotencyKey": "order-0001"})
	}
	at(t, purchase, "responses/200/headers/PAYMENT-RESPONSE")
	at(t, document, "components/responses/PaymentRequired/headers/PAYMENT-REQUIRED")
}

func TestSecretsAreMarked(t *testing.T) {
	document := shopDocument(t)
	equal(t, at(t, document, "components/schemas/Thing/properties/key/x-sensitive"), true)
	equal(t, at(t, document, "paths//pay/{orderId}/get/x-sensitive-response"), true)
	if at(t, document, "paths//sweep/post").(object)["x-sensitive-response"] != nil {
		t.Error("an answer without secrets is marked")
	}
}

func TestCommentsBecomeText(t *testing.T) {
	find := at(t, shopDocument(t), "paths//shelves/{shelfId}/get")
	equal(t, at(t, find, "summary"), "Finds things")
	equal(t, at(t, find, "description"), "Finds things. All of them at once.\n\nSlowly.")
	equal(t, at(t, find, "tags"), []any{"Shop"})
}

func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	document := shopDocument(t)
	used := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case object:
			for name, item := range v {
				if name == "$ref" {
					used[item.(string)] = true
					at(t, document, strings.TrimPrefix(item.(string), "#/"))
				}
				walk(item)
			}
		}
	}
	walk(document)
	for kind, named := range at(t, document, "components").(object) {
		for name := range named.(object) {
			if ref := "#/components/" + kind + "/" + name; kind != "securitySchemes" && !used[ref] {
				t.Errorf("%s is in the document but nothing refers to it", ref)
			}
		}
	}
}

func TestWhatCannotBeSaidIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"64-bit integer":  {"optional bool hard = 1;", "int64 hard = 1;", "int64 has no translation"},
		"unknown rule":    {"string.max_len = 9", "string.max_bytes = 9", "maxBytes"},
		"unknown problem": {`"issue_paused"`, `"issue_palsied"`, "issue_palsied"},
		"paid without price": {
			"{access: ACCESS_OPERATOR, role: ROLE_ADMIN}", "{access: ACCESS_PAYER, paid: true}", "no price",
		},
		"operator without a role": {", role: ROLE_ADMIN}", "}", "names no role"},
		"body of one field":       {"post: \"/sweep\"\n      body: \"*\"", "post: \"/sweep\"\n      body: \"hard\"", "body"},
		"unknown path variable":   {"post: \"/sweep\"", "post: \"/sweep/{it}\"", "{it}"},
		"path taken":              {"{post: \"/pay/{order_id}\"}", "{get: \"/pay/{order_id}\"}", "is taken"},
		"message on both sides":   {"returns (SweepResponse)", "returns (SweepRequest)", "two schemas"},
		"no comment":              {"  // Sweeps up.\n", "", "no comment"},
		"other verb":              {"post: \"/sweep\"", "patch: \"/sweep\"", "patch"},
		"response body not there": {`response_body: "things"`, `response_body: "thongs"`, "thongs"},
	} {
		t.Run(name, func(t *testing.T) {
			set := shop(t, strings.NewReplacer(c.old, c.new))
			_, err := describe(set.File, []string{"shop.proto"}, problems(t))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %q", err, c.want)
			}
		})
	}
}

func TestCatalogueIsReadWhole(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "internal/fault/catalogue.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := problems(t)
	if codes := strings.Count(string(source), " Code = \"") + strings.Count(string(source),
		"\tCode = \""); len(all) != codes {
		t.Errorf("%d of %d codes have a row that can be read", len(all), codes)
	}
	equal(t, all["card_not_found"].status, 404)
	equal(t, all["media_type_unsupported"].status, 415)
}

func shopDocument(t *testing.T) any {
	t.Helper()
	raw, err := describe(shop(t, nil).File, []string{"shop.proto"}, problems(t))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, raw)
}

func problems(t *testing.T) catalogue {
	t.Helper()
	all, err := readCatalogue(filepath.Join(root, "internal/fault"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// shop compiles testdata/shop.proto, perhaps changed, with the policy and the problem.
func shop(t *testing.T, change *strings.Replacer) *descriptorpb.FileDescriptorSet {
	t.Helper()
	dir := t.TempDir()
	for target, source := range map[string]string{
		"shop.proto":                   "testdata/shop.proto",
		"roamcard/v1/policy.proto":     root + "/proto/roamcard/v1/policy.proto",
		"roamcard/v1/problem.proto":    root + "/proto/roamcard/v1/problem.proto",
		"google/api/annotations.proto": root + "/third_party/googleapis/google/api/annotations.proto",
		"google/api/http.proto":        root + "/third_party/googleapis/google/api/http.proto",
		"buf/validate/validate.proto":  root + "/third_party/protovalidate/buf/validate/validate.proto",
	} {
		content, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if target == "shop.proto" && change != nil {
			changed := change.Replace(string(content))
			if changed == string(content) {
				t.Fatal("the change changes nothing")
			}
			content = []byte(changed)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, target)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, target), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return build(t, dir)
}

// build compiles a folder of protos with buf.
func build(t *testing.T, dir string) *descriptorpb.FileDescriptorSet {
	t.Helper()
	buf, err := filepath.Abs("../node_modules/.bin/buf")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(buf); err != nil {
		t.Skip("buf is not installed: run make setup")
	}
	cmd := exec.Command(buf, "build", "-o", "-#format=binpb")
	cmd.Dir = dir
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(out, &set); err != nil {
		t.Fatal(err)
	}
	return &set
}

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at finds a value by its path. Names that hold slashes are found too, and ~ stands for the slash
// of a media type.
func at(t *testing.T, v any, path string) any {
	t.Helper()
	for path != "" {
		members, _ := v.(object)
		name := ""
		for candidate := range members {
			escaped := strings.ReplaceAll(candidate, "application/", "application~")
			if (path == escaped || strings.HasPrefix(path, escaped+"/")) && len(escaped) > len(name) {
				name = escaped
			}
		}
		if name == "" {
			t.Fatalf("nothing at %s", path)
		}
		v = members[strings.ReplaceAll(name, "application~", "application/")]
		path = strings.TrimPrefix(strings.TrimPrefix(path, name), "/")
	}
	return v
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
