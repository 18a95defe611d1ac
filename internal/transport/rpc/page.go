package rpc

import (
	"cmp"
	"context"
	"strconv"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

const defaultPage = 50

// limitOf is how many a page has at most; zero asks for the default.
func limitOf(asked uint32) int { return cmp.Or(int(asked), defaultPage) }

// messages are what a page shows.
func messages[T, M any](page []T, message func(T) *M) (all []*M) {
	for _, one := range page {
		all = append(all, message(one))
	}
	return all
}

// cursor reads the token of a page of what has a uuid; an absent one is nil.
func cursor(token *string) (uuid.UUID, error) {
	if token == nil {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(*token)
	if err != nil {
		return uuid.Nil, rpcx.Invalid("pageToken", "string.uuid", "must be a uuid")
	}
	return id, nil
}

// pageToken is the token of a page, absent after the last.
func pageToken(next uuid.UUID) *string {
	if next == uuid.Nil {
		return nil
	}
	return proto.String(next.String())
}

// pageBefore reads the token of a page of what has a number; an absent one is zero.
func pageBefore(token *string) (int64, error) {
	if token == nil {
		return 0, nil
	}
	before, err := strconv.ParseInt(*token, 10, 64)
	if err != nil {
		return 0, rpcx.Invalid("pageToken", "string.pattern", "must be the nextPageToken of a page")
	}
	return before, nil
}

// numberToken is the token of a page, absent after the last.
func numberToken(next int64) *string {
	if next == 0 {
		return nil
	}
	return proto.String(strconv.FormatInt(next, 10))
}

// pageAsked is which page of jobs an operator asks for. A size of zero is the default one, an absent token the first
// page's.
type pageAsked struct {
	status string
	size   uint32
	token  *string
}

// jobPage is a page of jobs as messages, newest first, and the token of the next page.
func jobPage[M any](
	ctx context.Context, asked pageAsked,
	list func(context.Context, job.Query, order.OperatorContext) ([]job.Row, error),
	message func(job.Row) (*M, error),
) (all []*M, next *string, err error) {
	size := limitOf(asked.size)
	q := job.Query{Status: job.Status(asked.status), Limit: size + 1}
	if q.Before, err = cursor(asked.token); err != nil {
		return nil, nil, err
	}
	rows, err := list(ctx, q, act(ctx))
	if err != nil {
		return nil, nil, err
	}
	if len(rows) > size {
		rows = rows[:size]
		next = proto.String(rows[size-1].ID.String())
	}
	for _, row := range rows {
		m, err := message(row)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, m)
	}
	return all, next, nil
}
