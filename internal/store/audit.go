package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
)

// audit writes an action without a reason or key to the audit trail; after is its result, nil for a read.
func (s *Store) audit(ctx context.Context, tx *ent.Tx, actor, action, subject string, after any) error {
	create := tx.Audit.Create().SetID(uuid.Must(uuid.NewV7())).SetAt(s.stamp()).SetActor(actor).SetAction(action).
		SetSubject(subject)
	if after != nil {
		b, err := json.Marshal(after)
		if err != nil {
			return fmt.Errorf("encode the audit row: %w", err)
		}
		create.SetAfter(b)
	}
	return create.Exec(ctx)
}
