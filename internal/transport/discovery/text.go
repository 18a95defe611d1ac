package discovery

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"

	"github.com/roamcard/roamcard/internal/x402"
)

//go:embed files/llms.txt files/SKILL.md
var texts embed.FS

const (
	skillName = "roamcard"
	skillText = "Buy virtual cards, top-ups and travel eSIMs from a wallet with x402, safely: one key per purchase, " +
		"no double payment, no secrets in context."
)

// text executes a template with the contract.
func (s *Site) text(name string) ([]byte, error) {
	t, err := template.ParseFS(texts, "files/"+name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, struct {
		contract
		Skill, SkillText string
		Summary          string
		Contact          string
		// Extension is x402's sign-in for one request.
		Extension string
	}{s.contract(), skillName, skillText, s.api.Info.Summary, s.Contact, x402.SignInWithX}); err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	return b.Bytes(), nil
}
