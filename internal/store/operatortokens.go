package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/audit"
	"github.com/roamcard/roamcard/ent/operatortoken"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/order"
)

// OperatorTokens are the tokens of operators that were minted. It implements auth.MintedTokens, admin.TokenRecords and
// rpcx.Refusals.
type OperatorTokens struct{ s *Store }

// OperatorTokens is the part of the store for the tokens of operators.
func (s *Store) OperatorTokens() OperatorTokens { return OperatorTokens{s} }

// The operators' actions on tokens, as the audit trail names them.
const (
	actTokens  = "tokens.list"
	actMint    = "token.mint"
	actRevoke  = "token.revoke"
	actRefused = "operator.refused"
)

// usedWithin is how exactly the last use of a token is known.
const usedWithin = time.Minute

// UseToken implements auth.MintedTokens.
func (o OperatorTokens) UseToken(ctx context.Context, hash [32]byte, now time.Time) (auth.OperatorToken, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	row, err := o.s.ent.OperatorToken.Query().Where(operatortoken.TokenHash(hash[:])).Only(ctx)
	if ent.IsNotFound(err) {
		return auth.OperatorToken{}, auth.ErrNotFound
	}
	if err != nil {
		return auth.OperatorToken{}, fmt.Errorf("find the token: %w", mapError(err))
	}
	t, err := operatorTokenOf(row)
	if err != nil || t.RevokedAt != nil || !now.Before(t.ExpiresAt) {
		return t, err
	}
	if t.LastUsedAt == nil || now.Sub(*t.LastUsedAt) >= usedWithin {
		err = o.s.ent.OperatorToken.Update().Where(operatortoken.ID(t.ID), operatortoken.Or(
			operatortoken.LastUsedAtIsNil(), operatortoken.LastUsedAtLT(now))).SetLastUsedAt(now.UTC()).Exec(ctx)
	}
	return t, mapError(err)
}

// minted is the audit record of a token.
type minted struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Seconds int64  `json:"expiresInSeconds"`
}

// Mint implements admin.TokenRecords.
func (o OperatorTokens) Mint(
	ctx context.Context, t auth.OperatorToken, act order.OperatorContext,
) (made auth.OperatorToken, fresh bool, err error) {
	err = o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		lock(tx, "mint/"+act.Operator)
		after := minted{
			ID: t.ID.String(), Name: t.Name, Role: string(t.Role), Seconds: int64(t.ExpiresAt.Sub(t.MintedAt) / time.Second),
		}
		before, err := tx.Audit.Query().Where(audit.Actor(act.Operator), audit.Action(actMint), audit.Subject(t.Name),
			audit.IdempotencyKey(act.Key)).Only(ctx)
		switch {
		case err == nil:
			made, fresh = auth.OperatorToken{}, false
			return o.mintedBefore(ctx, tx, before, after, act, &made)
		case !ent.IsNotFound(err):
			return err
		}
		made, fresh = t, true
		minters := t.Minters
		if minters == nil {
			minters = []string{}
		}
		insert(tx, ent.OperatorTokenTable, &ent.OperatorToken{
			ID: t.ID, Name: t.Name, Role: operatortoken.Role(t.Role), TokenHash: t.Hash[:], Minters: minters,
			MintedAt: t.MintedAt, ExpiresAt: t.ExpiresAt,
		})
		return o.s.record(ctx, tx, act, actMint, t.Name, nil, after)
	})
	return made, fresh, err
}

// mintedBefore reads the token that was minted with a key before. order.KeyReused when that was another one.
func (o OperatorTokens) mintedBefore(
	ctx context.Context, tx *ent.Tx, record *ent.Audit, wanted minted, act order.OperatorContext, into *auth.OperatorToken,
) error {
	var was minted
	if err := json.Unmarshal(record.After, &was); err != nil {
		return fmt.Errorf("read the audit row: %w", err)
	}
	id, err := uuid.Parse(was.ID)
	if err != nil {
		return fmt.Errorf("read the audit row: %w", err)
	}
	if wanted.ID = was.ID; was != wanted || record.Reason != act.Reason {
		return order.KeyReused()
	}
	row, err := tx.OperatorToken.Get(ctx, id)
	if err != nil {
		return err
	}
	*into, err = operatorTokenOf(row)
	return err
}

// Tokens implements admin.TokenRecords.
func (o OperatorTokens) Tokens(
	ctx context.Context, q admin.TokenQuery, act order.OperatorContext,
) (found []auth.OperatorToken, err error) {
	err = o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		query, now := tx.OperatorToken.Query(), o.s.stamp()
		switch q.Status {
		case admin.TokenActive:
			query = query.Where(operatortoken.RevokedAtIsNil(), operatortoken.ExpiresAtGT(now))
		case admin.TokenExpired:
			query = query.Where(operatortoken.RevokedAtIsNil(), operatortoken.ExpiresAtLTE(now))
		case admin.TokenRevoked:
			query = query.Where(operatortoken.RevokedAtNotNil())
		}
		if q.Before != uuid.Nil {
			query = query.Where(operatortoken.IDLT(q.Before))
		}
		rows, err := query.Order(operatortoken.ByID(sql.OrderDesc())).Limit(q.Limit).All(ctx)
		if err != nil {
			return err
		}
		found = make([]auth.OperatorToken, len(rows))
		for i, row := range rows {
			if found[i], err = operatorTokenOf(row); err != nil {
				return err
			}
		}
		return o.s.record(ctx, tx, act, actTokens, string(q.Status), nil, nil)
	})
	return found, err
}

// Active are the tokens that can be used now. It is for the doctor, who shows none of them, and leaves no audit record.
func (o OperatorTokens) Active(ctx context.Context) ([]auth.OperatorToken, error) {
	rows, err := o.s.ent.OperatorToken.Query().Where(operatortoken.RevokedAtIsNil(),
		operatortoken.ExpiresAtGT(o.s.stamp())).Limit(mostActive).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	all := make([]auth.OperatorToken, len(rows))
	for i, row := range rows {
		if all[i], err = operatorTokenOf(row); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// mostActive is more than the operators of any service.
const mostActive = 1000

// revoked is the audit record of a token that was revoked.
type revoked struct {
	Status string `json:"status"`
}

// Revoke implements admin.TokenRecords.
func (o OperatorTokens) Revoke(
	ctx context.Context, id uuid.UUID, act order.OperatorContext,
) (t auth.OperatorToken, err error) {
	err = o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		lock(tx, "token/"+id.String())
		row, err := tx.OperatorToken.Get(ctx, id)
		if ent.IsNotFound(err) {
			return admin.ErrTokenNotFound
		}
		if err != nil {
			return err
		}
		if t, err = operatorTokenOf(row); err != nil {
			return err
		}
		after := revoked{string(admin.TokenRevoked)}
		if repeated, err := o.s.repeats(ctx, tx, act, actRevoke, id.String(), after); err != nil || repeated {
			return err
		}
		if t.RevokedAt != nil {
			return nil
		}
		now := o.s.stamp()
		if err := tx.OperatorToken.UpdateOneID(id).SetRevokedAt(now).SetRevokedBy(act.Operator).Exec(ctx); err != nil {
			return err
		}
		t.RevokedAt, t.RevokedBy = &now, act.Operator
		before := minted{ID: id.String(), Name: t.Name, Role: string(t.Role)}
		return o.s.record(ctx, tx, act, actRevoke, id.String(), before, after)
	})
	return t, err
}

// refused is the audit record of what a role did not allow.
type refused struct {
	Role   auth.Role `json:"role"`
	Needed auth.Role `json:"needed"`
}

// Refused implements rpcx.Refusals.
func (o OperatorTokens) Refused(ctx context.Context, who auth.Caller, method string, needed auth.Role) error {
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return o.s.record(ctx, tx,
			order.OperatorContext{Operator: who.Name}, actRefused, method, nil, refused{who.Role, needed})
	})
}

func operatorTokenOf(row *ent.OperatorToken) (auth.OperatorToken, error) {
	if len(row.TokenHash) != 32 {
		return auth.OperatorToken{}, fmt.Errorf("read the token %s: its hash is damaged", row.ID)
	}
	return auth.OperatorToken{
		ID: row.ID, Name: row.Name, Role: auth.Role(row.Role), Hash: [32]byte(row.TokenHash), Minters: row.Minters,
		MintedAt: row.MintedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), LastUsedAt: utc(row.LastUsedAt),
		RevokedAt: utc(row.RevokedAt), RevokedBy: row.RevokedBy,
	}, nil
}
