import { Component, useEffect, type ReactNode } from "react";
import { onSignedOut } from "./api";
import { Link } from "./link";
import { DiffPage } from "./lineage/diff";
import { LineagePage } from "./lineage/page";
import { DiagnosisPage } from "./pages/diagnosis";
import { HomePage, LISTS } from "./pages/home";
import { ImpactPage } from "./pages/impact";
import { isSignedIn, LoginPage, signOut } from "./pages/login";
import { RunPage } from "./pages/run";
import { SearchPage } from "./pages/search";
import { TracePage } from "./pages/trace";
import { address, go, usePlace, type Place } from "./route";
import { SearchBox } from "./search-box";
import { Nothing, Problem } from "./states";

export function App() {
  const place = usePlace();
  useEffect(
    () =>
      onSignedOut(() => {
        const { pathname, search } = window.location;
        if (pathname !== "/login") go(address("/login", { next: pathname === "/" && !search ? null : pathname + search }), "replace");
      }),
    [],
  );
  useEffect(() => {
    document.title = titleOf(place);
  }, [place]);
  return (
    <div className="shell">
      <header className="bar">
        <Link href="/" className="brand">
          whence
        </Link>
        {place.path !== "/login" && <SearchBox text={place.path === "/search" ? (place.query.get("q") ?? "") : ""} />}
        {place.path !== "/login" && isSignedIn() && (
          <button type="button" className="quiet" onClick={() => void signOut()}>
            Sign out
          </button>
        )}
      </header>
      <Guard key={place.path}>
        <Page place={place} />
      </Guard>
    </div>
  );
}

function Page({ place }: { place: Place }) {
  const { path } = place;
  if (LISTS.includes(path)) return <HomePage place={place} />;
  if (path === "/login") return <LoginPage place={place} />;
  if (path === "/search") return <SearchPage place={place} />;
  if (path === "/lineage") return <LineagePage place={place} />;
  if (path === "/diff") return <DiffPage place={place} />;
  if (path === "/impact") return <ImpactPage place={place} />;
  if (path.startsWith("/runs/")) return <RunPage place={place} />;
  if (path.startsWith("/traces/")) return <TracePage place={place} />;
  if (path.startsWith("/diagnoses/")) return <DiagnosisPage place={place} />;
  return (
    <main className="page">
      <Nothing>
        <h2>There is no such page</h2>
        <p>
          <Link href="/">All datasets</Link>
        </p>
      </Nothing>
    </main>
  );
}

function titleOf(place: Place): string {
  const name = place.query.get("name") ?? place.query.get("q");
  const what = place.path === "/" ? "" : place.path.slice(1).split("/")[0];
  return [name, what, "whence"].filter(Boolean).join(" · ");
}

/** A fault of one page says so there, and leaves the rest alone. */
class Guard extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    return this.state.error ? (
      <main className="page">
        <Problem error={this.state.error} />
      </main>
    ) : (
      this.props.children
    );
  }
}
