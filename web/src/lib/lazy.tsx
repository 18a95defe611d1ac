// Parts of a page that are loaded when they are first shown.
import type { ComponentChild, FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Message, Spinner } from "./parts.js";
import { texts } from "./text.js";

/** A component that `load` brings. While it does not come, a person is told, and may load the page again. */
export function lazy<P extends object>(load: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  let there: FunctionComponent<P> | undefined;
  return function Lazy(props: P): ComponentChild {
    const [, loaded] = useState(0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (there) return;
      load().then(
        (component) => {
          there = component;
          loaded(1);
        },
        () => setFailed(true),
      );
    }, []);
    if (there) {
      const Part = there;
      return <Part {...props} />;
    }
    if (!failed) return <Spinner />;
    return (
      <Message tone="bad" title={texts.pay.offline} text={texts.pay.offlineText}>
        <button class="quiet" onClick={() => location.reload()}>
          {texts.retry}
        </button>
      </Message>
    );
  };
}
