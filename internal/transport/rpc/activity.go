package rpc

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// ActivityService records product events and shows their totals.
type ActivityService struct {
	Events Events
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Events stores product events and counts them.
type Events interface {
	// Accept stores an event, or is an event_rejected.
	Accept(ctx context.Context, s activity.Submission) error
	Report(ctx context.Context, days int) (activity.Report, error)
	// PruneFor deletes old events, and records who asked.
	PruneFor(ctx context.Context, actor string) (int, error)
}

// RecordEvent implements roamcardv1connect.ActivityServiceHandler.
func (s ActivityService) RecordEvent(
	ctx context.Context, req *roamcardv1.RecordEventRequest,
) (*roamcardv1.RecordEventResponse, error) {
	err := s.Events.Accept(ctx, activity.Submission{
		EventID: req.GetEventId(), EventName: req.GetEventName(), VisitorID: req.GetVisitorId(), Path: req.GetPath(),
		Properties: properties(req.GetProperties()),
	})
	if err != nil {
		s.Metrics.Event(ctx, "refused")
		return nil, err
	}
	s.Metrics.Event(ctx, "accepted")
	return &roamcardv1.RecordEventResponse{Accepted: true}, nil
}

// GetActivity implements roamcardv1connect.ActivityServiceHandler.
func (s ActivityService) GetActivity(
	ctx context.Context, req *roamcardv1.GetActivityRequest,
) (*roamcardv1.GetActivityResponse, error) {
	days := activity.DefaultDays
	if req.Days != nil {
		days = int(req.GetDays())
	}
	r, err := s.Events.Report(ctx, days)
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.GetActivityResponse{
		Days: uint32(r.Days), From: timestamp(r.From), To: timestamp(r.To), Events: uint32(r.Events),
		Visitors: uint32(r.Visitors),
		ByName:   counts(r.ByName), ByDay: counts(r.ByDay),
	}
	for _, name := range slices.Sorted(maps.Keys(r.ByProperty)) {
		res.ByProperty = append(res.ByProperty, &roamcardv1.ActivityProperty{
			Name: name, Values: counts(r.ByProperty[name]),
		})
	}
	return res, nil
}

// PruneActivity implements roamcardv1connect.ActivityServiceHandler.
func (s ActivityService) PruneActivity(
	ctx context.Context, _ *roamcardv1.PruneActivityRequest,
) (*roamcardv1.PruneActivityResponse, error) {
	deleted, err := s.Events.PruneFor(ctx, rpcx.Wallet(ctx).Lower())
	if err != nil {
		return nil, err
	}
	return &roamcardv1.PruneActivityResponse{Deleted: uint32(deleted)}, nil
}

// properties are the members that are set, by JSON name.
func properties(p *roamcardv1.EventProperties) map[string]any {
	given := map[string]any{}
	p.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		given[f.JSONName()] = v.String()
		return true
	})
	return given
}

func counts(all []activity.Count) []*roamcardv1.ActivityCount {
	out := make([]*roamcardv1.ActivityCount, len(all))
	for i, c := range all {
		out[i] = &roamcardv1.ActivityCount{Value: c.Value, Events: uint32(c.Events), Visitors: uint32(c.Visitors)}
	}
	return out
}
