package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// problem is what the server's catalogue says about a code.
type problem struct {
	code, title string
	status      int
	example     object
}

type catalogue map[string]problem

var (
	constant = regexp.MustCompile(`(\w+)\s+(?:Code|NextAction)\s+= "(\w+)"`)
	literal  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	row      = regexp.MustCompile(`Kind\{\s*(\w+),\s*(?:http\.S|s)tatus(\w+),\s*((?:"(?:[^"\\]|\\.)*"(?:\s*\+\s*)?)+),` +
		`\s*(true|false),\s*(true|false),\s*(\w+),?\s*\}`)
)

// readCatalogue reads the rows Kind{Code, Status, Title, Retryable, SafeToPayAgain, NextAction} from
// the source of the server's fault package; an import would tie this module to the server's versions.
func readCatalogue(folder string) (catalogue, error) {
	rows, err := os.ReadFile(filepath.Join(folder, "catalogue.go"))
	if err != nil {
		return nil, err
	}
	actions, err := os.ReadFile(filepath.Join(folder, "fault.go"))
	if err != nil {
		return nil, err
	}
	constants := map[string]string{}
	for _, match := range constant.FindAllStringSubmatch(string(rows)+string(actions), -1) {
		constants[match[1]] = match[2]
	}
	problems := catalogue{}
	for _, match := range row.FindAllStringSubmatch(string(rows), -1) {
		p := problem{code: constants[match[1]], status: statuses[match[2]]}
		action := constants[match[6]]
		if p.title, err = unquote(match[3]); err != nil || p.code == "" || p.status == 0 || action == "" {
			return nil, fmt.Errorf("cannot read the row %s", match[0])
		}
		p.example = object{
			"type": "/problems/" + p.code, "title": p.title, "status": p.status, "detail": p.title, "code": p.code,
			"retryable": match[4] == "true", "safeToPayAgain": match[5] == "true", "nextAction": action, "requestId": "req_1",
		}
		problems[p.code] = p
	}
	if len(problems) == 0 {
		return nil, errors.New("it has no rows that can be read")
	}
	return problems, nil
}

// unquote reads a title, which may be several literals with a plus between them.
func unquote(literals string) (string, error) {
	var whole strings.Builder
	for _, l := range literal.FindAllString(literals, -1) {
		part, err := strconv.Unquote(l)
		if err != nil {
			return "", err
		}
		whole.WriteString(part)
	}
	return whole.String(), nil
}

// statuses are the HTTP errors by the names net/http gives them, and the one that it has none for.
var statuses = func() map[string]int {
	byName := map[string]int{}
	for status := 400; status < 600; status++ {
		byName[statusName(status)] = status
	}
	return byName
}()

func statusName(status int) string {
	if status == 499 {
		return "ClientClosed"
	}
	return strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(status))
}

// refusals refers to the shared response of each status among the codes, saying which of its codes
// the operation answers with.
func (d *document) refusals(codes []string, responses object) error {
	texts := map[int][]string{}
	for _, code := range slices.Compact(slices.Sorted(slices.Values(codes))) {
		p, ok := d.problems[code]
		if !ok {
			return fmt.Errorf("the catalogue has no problem %q", code)
		}
		texts[p.status] = append(texts[p.status], fmt.Sprintf("* `%s`: %s", code, p.title))
		if d.answers[p.status] == nil {
			d.answers[p.status] = map[string]bool{}
		}
		d.answers[p.status][code] = true
	}
	for status := range texts {
		responses[strconv.Itoa(status)] = object{
			"$ref":        "#/components/responses/" + statusName(status),
			"description": strings.Join(texts[status], "\n"),
		}
	}
	return nil
}

// problemResponses adds the shared responses, with an example of each code in use, and the schema
// they share.
func (d *document) problemResponses(m protoreflect.MessageDescriptor) error {
	ref, err := d.message(m, answered, nil)
	if err != nil {
		return err
	}
	// Unlike other answers a problem leaves out an empty list.
	schema := d.Components["schemas"]["Problem"].(object)
	schema["required"] = slices.DeleteFunc(schema["required"].([]string),
		func(name string) bool { return name == "fields" })
	for status, codes := range d.answers {
		headers := object{"X-Request-Id": d.share("headers", "RequestId")}
		switch status {
		case http.StatusUnauthorized:
			headers["WWW-Authenticate"] = d.share("headers", "WwwAuthenticate")
		case http.StatusPaymentRequired:
			headers["PAYMENT-REQUIRED"] = d.share("headers", "PaymentRequired")
			headers["PAYMENT-RESPONSE"] = d.share("headers", "PaymentResponse")
			headers["Cache-Control"] = d.share("headers", "NoStore")
		case http.StatusTooManyRequests:
			headers["Retry-After"] = d.share("headers", "RetryAfter")
			for name, component := range map[string]string{
				"RateLimit-Limit": "RateLimitLimit", "RateLimit-Remaining": "RateLimitRemaining",
				"RateLimit-Reset": "RateLimitReset",
			} {
				headers[name] = d.share("headers", component)
			}
		case http.StatusServiceUnavailable:
			headers["Retry-After"] = d.share("headers", "RetryAfter")
		}
		examples := object{}
		for code := range codes {
			examples[code] = object{"summary": d.problems[code].title, "value": d.problems[code].example}
		}
		d.add("responses", statusName(status), object{
			"description": http.StatusText(status) + ".",
			"headers":     headers,
			"content":     object{"application/problem+json": object{"schema": ref, "examples": examples}},
		})
	}
	return nil
}
