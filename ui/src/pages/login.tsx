import { useState } from "react";
import { Refused, send } from "../api";
import { asError, forgetAnswers } from "../load";
import { forgetNeighbours } from "../lineage/more";
import { go, type Place } from "../route";

const SIGNED_IN = "whence signed in";

export function isSignedIn(): boolean {
  try {
    return localStorage.getItem(SIGNED_IN) !== null;
  } catch {
    return false;
  }
}

function note(signedIn: boolean): void {
  try {
    if (signedIn) localStorage.setItem(SIGNED_IN, "yes");
    else localStorage.removeItem(SIGNED_IN);
  } catch {
    // Without storage the button to sign out is missing, nothing else.
  }
}

export async function signOut(): Promise<void> {
  await send("DELETE", "/session").catch(() => {});
  note(false);
  forgetAnswers();
  forgetNeighbours();
  go("/login");
}

/** Only an address of this page: a link must not lead elsewhere after signing in. */
export function safeNext(next: string | null): string {
  if (!next?.startsWith("/") || /^\/[/\\]/.test(next)) return "/";
  const url = new URL(next, "http://here");
  return url.origin === "http://here" ? url.pathname + url.search : "/";
}

export function LoginPage({ place }: { place: Place }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  const submit = async (event: React.FormEvent) => {
    event.preventDefault();
    setError(null);
    setSending(true);
    try {
      await send("POST", "/session", { token: token.trim() });
      note(true);
      forgetAnswers();
      forgetNeighbours();
      go(safeNext(place.query.get("next")));
    } catch (failure) {
      const refused = failure instanceof Refused && failure.status === 401;
      setError(refused ? "This token is not known, or no longer valid." : asError(failure).message);
    } finally {
      setSending(false);
    }
  };
  return (
    <main className="login">
      <form onSubmit={submit}>
        <h1>Sign in</h1>
        <p className="soft">
          Whoever runs this server makes tokens with <code>whence token create</code>.
        </p>
        <label>
          <span>Token</span>
          <input type="password" name="token" value={token} onChange={(event) => setToken(event.target.value)} autoComplete="current-password" required />
        </label>
        {error && <p role="alert">{error}</p>}
        <button type="submit" className="main" disabled={sending}>
          Sign in
        </button>
      </form>
    </main>
  );
}
