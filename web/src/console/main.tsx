import { render } from "preact";
import { useRef, useState } from "preact/hooks";
import { keepFocus } from "../lib/focus.js";
import { texts } from "../lib/text.js";
import { Failure } from "./parts.js";
import { Session } from "./session.js";
import { Shell } from "./shell.js";
import { t } from "./text.js";

const place = document.querySelector("#page")!;
document.documentElement.lang = texts.lang;
document.title = texts.documentTitle(t.console);
place.replaceChildren();
keepFocus();
const session: Session = new Session(show);
show();

function show(): void {
  render(session.signed ? <Shell signed={session.signed} session={session} /> : <SignIn />, place);
}

// SignIn asks for the token. The field is no password's, so that no browser offers to keep it.
function SignIn() {
  const field = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const signIn = async (event: Event) => {
    event.preventDefault();
    const input = field.current!;
    const token = input.value.trim();
    if (busy || token === "") return;
    input.value = "";
    setBusy(true);
    setError(undefined);
    try {
      await session.signIn(token);
    } catch (problem) {
      setError(problem);
      setBusy(false);
      input.focus();
    }
  };
  return (
    <main class="sign-in">
      <h1>
        roamcard <span class="soft">{t.console}</span>
      </h1>
      {session.ended && (
        <p class="message warn" role="status">
          {t.ended[session.ended]}
        </p>
      )}
      {error !== undefined && <Failure error={error} />}
      <form onSubmit={(event) => void signIn(event)} autocomplete="off">
        <label class="field">
          <span>{t.token}</span>
          <input
            ref={field}
            class="secret mono"
            type="text"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            required
            autofocus
          />
          <small>{t.tokenHint}</small>
        </label>
        <button type="submit" class="main" disabled={busy}>
          {busy ? t.working : t.signIn}
        </button>
      </form>
    </main>
  );
}
