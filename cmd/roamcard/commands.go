package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/devtools/doctor"
)

// errUsage marks a mistake on the command line.
var errUsage = errors.New("wrong usage")

// saidOf says what is wrong with a flag, without the words of the function that reads it.
func saidOf(err error) string {
	read, ok := errors.AsType[*strconv.NumError](err)
	if !ok {
		return err.Error()
	}
	is := "it is no number that fits here"
	if read.Func == "ParseBool" {
		is = "it is neither true nor false"
	}
	return strings.Replace(err.Error(), read.Error(), is, 1)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "roamcard",
		Short:         "Sells virtual cards and travel eSIMs to wallets, for USDC on Base through x402",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          help,
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %s", errUsage, saidOf(err)) })
	cmd.AddGroup(
		&cobra.Group{ID: "run", Title: "Run:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
		&cobra.Group{ID: "buy", Title: "Buy:"},
	)
	cmd.AddCommand(
		devServer(), serve(), worker(), devnet(), sandbox(),
		migrate(), doctorCommand(), config(), reconcile(), recovery(), deploySettler(), admin(),
		demo(), card(), esim(), orders(), receipts(), wallet(), mcpTools(), approve(), openapi(), version(), man(),
	)
	cmd.Version = versionText()
	cmd.SetVersionTemplate("{{.Version}}\n")
	eachCommand(cmd, finish)
	return cmd
}

func devServer() *cobra.Command {
	var c dev.Config
	cmd := &cobra.Command{
		Use: "dev", GroupID: "run", Args: noArgs,
		Short: "Run everything on loopback: database, chain, sandbox providers, service",
		Long: "Runs PostgreSQL and anvil as children, the sandbox issuer and the service, with funded wallets whose keys " +
			"are public.\n" +
			"Nothing here is real money. With --data, killed and started again, it goes on where it was.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Log, c.Out = logger(cmd.ErrOrStderr()), cmd.OutOrStdout()
			return dev.Run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Addr, "addr", "127.0.0.1:8402", "loopback host and port to listen on; port 0 picks one")
	f.StringVar(&c.ConsoleAddr, "console-addr", "",
		"loopback host and port of the operators' console (default: a free port)")
	f.StringVar(&c.Dir, "data", "", "folder to keep database, chain and books in (default: a new one, removed at the end)")
	f.StringVar(&c.ReadyFile, "ready-file", "", "JSON file to write once everything answers")
	f.StringVar(&c.DatabaseURL, "database-url", "", "use this PostgreSQL instead of a child")
	f.StringVar(&c.RPCURL, "rpc-url", "", "use the chain of a running `roamcard devnet`")
	f.StringVar(&c.SandboxURL, "sandbox-url", "", "use a running `roamcard sandbox`")
	f.StringVar(&c.FacilitatorURL, "facilitator-url", "",
		"settle through this x402 facilitator, which has to be on the same chain")
	f.DurationVar(&c.IssuerCallTimeout, "issuer-call-timeout", 0, "the setting issuer.call_timeout")
	f.DurationVar(&c.IssuerVisibilityDelay, "issuer-visibility-delay", 0, "the setting issuer.visibility_delay")
	f.BoolVar(&c.OnlyEvery, "blocks-only-every-2s", false, onlyEvery)
	f.BoolVar(&c.SpendLimits, "issuer-spend-limits", false,
		"the setting issuer.spend_limits, and a sandbox issuer that has them")
	f.StringVar(&c.Issuer, "issuer", "sandbox", "who issues the cards: "+strings.Join(dev.Names(dev.Issuer), ", ")+
		", or several separated by commas; all but the sandbox are real adapters to a fake of their vendor")
	f.StringVar(&c.Supplier, "supplier", "sandbox", "who supplies the eSIMs: "+strings.Join(dev.Names(dev.Supplier), ", ")+
		", or several separated by commas; all but the sandbox are real adapters to a fake of their vendor")
	f.DurationVar(&c.SupplierVisibilityDelay, "supplier-visibility-delay", 0,
		"the supplier's own setting visibility_delay, where it has one")
	f.StringArrayVar(&c.Set, "set", nil, "any other setting, as `key=value`; as often as needed (docs/configuration.md)")
	f.StringVar(&c.Routing, "routing", "", "the setting routing.rules, such as \"esim type=region: esim-go\"")
	f.StringVar(&c.OIDCIssuer, "oidc-issuer", "",
		"the setting oidc.issuer; its tokens are for the audience roamcard, and its groups are the roles")
	f.StringVar(&c.AdminAddr, "admin-addr", "", "the setting admin.addr")
	f.Uint32Var(&c.SecondApproverAbove, "second-approver-above", 0,
		"the setting operators.second_approver_above, in cents")
	f.StringVar(&c.Limits, "limits", dev.DefaultLimits,
		"rates of requests: default, off, or changes to the default (docs/configuration.md)")
	f.StringVar(&c.Settlement, "settlement", "", "who settles, in order: relayer, facilitator or both (default: the "+
		"facilitator, if there is one, then the relayer)")
	complete(cmd, "issuer", fixed(dev.Names(dev.Issuer)...))
	complete(cmd, "supplier", fixed(dev.Names(dev.Supplier)...))
	complete(cmd, "limits", fixed("default", "off"))
	complete(cmd, "settlement", fixed("relayer", "facilitator", "relayer,facilitator", "facilitator,relayer"))
	return cmd
}

func serve() *cobra.Command {
	var noWorker bool
	cmd := &cobra.Command{
		Use: "serve", GroupID: "run", Args: noArgs,
		Short: "Run the service; settings come from the environment and a file",
	}
	file := configFlag(cmd)
	cmd.Flags().BoolVar(&noWorker, "no-worker", false, "serve without jobs; run `roamcard worker` too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return app.Serve(cmd.Context(), app.ServeConfig{File: *file, NoWorker: noWorker, LogTo: cmd.ErrOrStderr()})
	}
	return cmd
}

func worker() *cobra.Command {
	cmd := &cobra.Command{
		Use: "worker", GroupID: "run", Args: noArgs,
		Short: "Run jobs alone: settlement, delivery, fees, maintenance",
	}
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return app.Serve(cmd.Context(), app.ServeConfig{File: *file, NoServer: true, LogTo: cmd.ErrOrStderr()})
	}
	return cmd
}

func devnet() *cobra.Command {
	var c dev.ChainConfig
	cmd := &cobra.Command{
		Use: "devnet", GroupID: "run", Args: noArgs,
		Short: "Run the development chain alone",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Log, c.Out = logger(cmd.ErrOrStderr()), cmd.OutOrStdout()
			return dev.RunChain(cmd.Context(), c)
		},
	}
	cmd.Flags().IntVar(&c.Port, "port", 8545, "loopback port to listen on; 0 picks one")
	cmd.Flags().StringVar(&c.Dir, "data", "", "folder to keep the chain in (default: in memory)")
	cmd.Flags().BoolVar(&c.OnlyEvery, "blocks-only-every-2s", false, onlyEvery)
	cmd.Flags().StringVar(&c.ReadyFile, "ready-file", "", "JSON file to write once the chain answers")
	return cmd
}

func sandbox() *cobra.Command {
	var c dev.SandboxConfig
	cmd := &cobra.Command{
		Use: "sandbox", GroupID: "run", Args: noArgs,
		Short: "Run the sandbox providers alone, with their own books",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Log = logger(cmd.ErrOrStderr())
			return dev.RunSandbox(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&c.Addr, "addr", "127.0.0.1:8403", "loopback host and port to listen on; port 0 picks one")
	cmd.Flags().StringVar(&c.Dir, "data", "", "folder to keep the books in (default: in memory)")
	cmd.Flags().BoolVar(&c.SpendLimits, "spend-limits", false,
		"open cards with spending limits; the service needs issuer.spend_limits")
	cmd.Flags().StringVar(&c.ReadyFile, "ready-file", "", "JSON file to write once it answers")
	return cmd
}

func migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", GroupID: "operate", Args: noArgs,
		Short: "Bring the database up to date",
		Long: "Brings the database up to date. There is no way back: a program that is older runs on a database that is " +
			"newer.",
	}
	file := cmd.PersistentFlags().String("config", "", "YAML file with settings; the environment goes before it")
	up := func(cmd *cobra.Command, _ []string) error {
		n, err := app.Migrate(cmd.Context(), *file, cmd.ErrOrStderr())
		if err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%d migrations applied\n", n)
		}
		return err
	}
	cmd.RunE = up
	cmd.AddCommand(
		&cobra.Command{Use: "up", Args: noArgs, Short: "The same", RunE: up},
		&cobra.Command{
			Use: "status", Args: noArgs, Short: "Say whether the database is up to date; the exit code is 5 when it is not",
			RunE: func(cmd *cobra.Command, _ []string) error {
				err := app.MigrationStatus(cmd.Context(), *file)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), "up to date")
				}
				return err
			},
		},
	)
	return cmd
}

func doctorCommand() *cobra.Command {
	var (
		asJSON, probe bool
		spend         string
	)
	cmd := &cobra.Command{
		Use: "doctor", GroupID: "operate", Args: noArgs,
		Short: "Check configuration, database, chain and providers, and say how to fix what fails",
		Long: "Checks configuration, database, chain and providers, and says how to fix what fails. It changes nothing.\n\n" +
			"--probe also opens a card at each issuer, loads, empties and freezes it, and sends references again, to see\n" +
			"whether the vendor does what its adapter takes for granted. It is for the vendors' sandboxes, and refused in\n" +
			"production. With --spend it buys the cheapest eSIM of each supplier that costs no more.",
	}
	file := configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&probe, "probe", false, "try the providers out, by calls that take effect in their sandboxes")
	cmd.Flags().StringVar(&spend, "spend", "0", "the most that --probe may pay for an eSIM of each supplier, in dollars")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return doctor.Run(cmd.Context(), doctor.Config{
			File: *file, JSON: asJSON, Probe: probe, Spend: spend, Out: cmd.OutOrStdout(),
		})
	}
	return cmd
}

func reconcile() *cobra.Command {
	var (
		c         app.ReconcileConfig
		readyFile string
	)
	cmd := &cobra.Command{
		Use: "reconcile", GroupID: "operate", Args: noArgs,
		Short: "Compare the chain's, our own and the issuer's books, and say what differs",
		Long: "Compares the transfers of safe blocks, the orders, payments and ledger, and the issuer's statement, of the " +
			"service that\n" +
			"the configuration names or of a running development server. The exit code is 6 when they differ.",
	}
	file := configFlag(cmd)
	cmd.Flags().StringVar(&readyFile, "ready-file", "",
		"ready `file` of a running roamcard dev, instead of a configuration")
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c.File, c.Out, c.Err = *file, cmd.OutOrStdout(), cmd.ErrOrStderr()
		if readyFile != "" {
			return dev.Reconcile(cmd.Context(), readyFile, c)
		}
		return app.Reconcile(cmd.Context(), c)
	}
	return cmd
}

func deploySettler() *cobra.Command {
	cmd := &cobra.Command{
		Use: "deploy-settler", GroupID: "operate", Args: noArgs,
		Short: "Deploy the contract that settles several payments in one transaction, unless the chain has it",
		Long: "Deploys the settler contract on the chain of the first node, unless it is there, and prints its address,\n" +
			"which is the same on every chain. " + app.DeployerKey + " is the private key of an account with ether for\n" +
			"gas that is no relayer's, or its _FILE names a file with it. The contract has no owner: afterwards the key is\n" +
			"of no use to it.",
	}
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return app.DeploySettler(cmd.Context(), app.DeploySettlerConfig{File: *file, Out: cmd.OutOrStdout()})
	}
	return cmd
}

func demo() *cobra.Command {
	var c dev.DemoConfig
	cmd := &cobra.Command{
		Use: "demo", GroupID: "buy", Args: noArgs,
		Short: "Buy a card and an eSIM on a development server, told step by step",
		Long: "Buys a card on the running development server named by --ready-file, or on one that it starts itself,\n" +
			"loses the answer on purpose, repeats the request without paying twice, reveals the card, and buys an eSIM.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Out, c.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			c.TTY = terminal(c.Out)
			return dev.Demo(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&c.ReadyFile, "ready-file", "", "ready `file` of a running roamcard dev")
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print one JSON summary")
	cmd.Flags().BoolVar(&c.ShowCard, "show-card", false, "print the sandbox card's number and code")
	return cmd
}

func config() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "config", GroupID: "operate", Args: noArgs, Short: "Show the settings of `serve` and where each comes from",
		RunE: help,
	}
	show := &cobra.Command{
		Use: "show", Args: noArgs,
		Short: "Print every setting, its value and its source; settings that are secrets are masked",
	}
	file := configFlag(show)
	show.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	show.RunE = func(cmd *cobra.Command, _ []string) error {
		return app.ShowConfig(*file, asJSON, cmd.OutOrStdout())
	}
	cmd.AddCommand(show, configCheck(), &cobra.Command{
		Use: "init", Args: noArgs,
		Short: "Print a configuration file to fill in: every setting, what it means and its default",
		RunE:  func(cmd *cobra.Command, _ []string) error { return app.InitConfig(cmd.OutOrStdout()) },
	})
	return cmd
}

func configCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "check [FILE]", Args: optionalArg,
		Short: "Report every mistake in the settings, without connecting to anything; the exit code is 5 when there is one",
		RunE: func(cmd *cobra.Command, args []string) error {
			return app.CheckConfig(strings.Join(args, ""), asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func openapi() *cobra.Command {
	return &cobra.Command{
		Use: "openapi", Args: noArgs,
		Short: "Print the OpenAPI 3.1 description of the REST routes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(app.OpenAPI())
			return err
		},
	}
}

func version() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "version", Args: noArgs,
		Short: "Print the version, and the commit it was built from",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.asJSON {
				return b.showJSON(cmd, map[string]string{
					"version": app.Version, "commit": app.BuiltFrom(), "go": runtime.Version(),
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	cmd.Flags().BoolVar(&b.asJSON, "json", false, "print JSON")
	return cmd
}

// versionText is what `version` and --version print.
func versionText() string {
	return fmt.Sprintf("roamcard %s (commit %s, %s)", app.Version, first(app.BuiltFrom(), "unknown"), runtime.Version())
}

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return unknownCommand(cmd, err, args[0])
	}
	return nil
}

func oneArg(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

func optionalArg(cmd *cobra.Command, args []string) error {
	if err := cobra.MaximumNArgs(1)(cmd, args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

// help is what a group of commands does by itself.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("config", "", "YAML file with settings; the environment goes before it")
}

// logger is for the commands of development: text for people.
func logger(w io.Writer) *slog.Logger { return dev.Logger(w, os.Getenv("ROAMCARD_LOG__LEVEL")) }

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// onlyEvery is the help of a flag.
const onlyEvery = "make a block every 2 s and none for a transaction, which waits for the next one, as on Base"
