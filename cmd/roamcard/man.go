package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/roamcard/roamcard/internal/app"
)

// man writes the manual pages for packages; nobody else needs the command.
func man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Args: oneArg, Hidden: true,
		Short: "Write a manual page for each command into a folder",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manuals are for everybody
				return fmt.Errorf("write the manual: %w", err)
			}
			// A fixed date, so that the same program writes the same pages.
			never := time.Unix(0, 0).UTC()
			header := &doc.GenManHeader{Title: "ROAMCARD", Section: "1", Source: "roamcard " + app.Version, Date: &never}
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}
