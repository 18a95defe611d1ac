-- +goose Up
-- What follows a ~ in a name tells the person, whatever the issuer calls them: nobody approves their own decision under
-- another name. Written by hand: ent makes no difference of a check that is there.
ALTER TABLE "operator_approvals" DROP CONSTRAINT "operator_approvals_second", ADD CONSTRAINT "operator_approvals_second"
	CHECK (status <> 'approved' OR (decided_by <> '' AND CASE
		WHEN position('~' in decided_by) > 0 AND position('~' in requested_by) > 0
		THEN split_part(decided_by, '~', 2) <> split_part(requested_by, '~', 2)
		ELSE split_part(decided_by, '~', 1) <> split_part(requested_by, '~', 1) END));

-- +goose Down
ALTER TABLE "operator_approvals" DROP CONSTRAINT "operator_approvals_second", ADD CONSTRAINT "operator_approvals_second"
	CHECK (status <> 'approved' OR (decided_by <> '' AND decided_by <> requested_by));
