use super::*;

#[test]
fn each_problem_has_the_row_at_its_place_and_a_name_of_its_own() {
    for (place, problem) in Problem::ALL.into_iter().enumerate() {
        assert_eq!(problem as usize, place, "{problem:?}");
        assert_eq!(Problem::named(problem.row().name), Some(problem));
    }
    // The last variant is the last row: none is without one.
    assert_eq!(Problem::OriginHeld as usize + 1, Problem::ALL.len());
}
